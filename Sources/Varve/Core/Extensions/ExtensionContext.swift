/// What an extension works with in one transaction: its parts of the storage, its settings, and the rows.
///
/// A part is an ordered map of bytes to bytes of the extension's own, named by it, made when it is first written
/// to. What is written belongs to the transaction: it is committed or undone with the rows.
public final class ExtensionContext {
  /// The name that the extension was registered by.
  public let name: String
  private let registered: RegisteredExtension
  /// Where another program writes: what it keeps at the transaction's snapshot.
  private let content: ExtensionContent?
  /// Until the transaction ends, which cuts the circle: it owns the extension's part, which owns this.
  private var reader: ReadTransaction?
  private var writer: WriteTransaction?

  init(_ registered: RegisteredExtension, _ transaction: ReadTransaction, _ content: ExtensionContent?) {
    self.registered = registered
    self.content = content
    reader = transaction
    writer = transaction as? WriteTransaction
    name = registered.name
  }

  /// The transaction has ended.
  func end() {
    reader = nil
    writer = nil
  }

  /// What its definition says.
  var findsRowsByID: Bool { registered.traits.findsRowsByID }

  /// The transaction, for rows and for other extensions. Throws `.transactionEnded` after its end.
  public var transaction: ReadTransaction {
    get throws {
      guard let reader else { throw ReadTransaction.endedError }
      return reader
    }
  }

  /// The transaction, where it can write; nil in a read, and after its end.
  public var writeTransaction: WriteTransaction? { writer }

  private func family(_ part: String) -> StorageFamily? {
    if let content { return content.families[part] }
    return registered.family(part)
  }

  private func reading() throws -> ReadTransaction {
    let transaction = try transaction
    try transaction.check()
    return transaction
  }

  // MARK: - Parts

  /// The value of a key.
  public func get(_ part: String, _ key: [UInt8]) throws -> [UInt8]? {
    let transaction = try reading()
    guard let family = family(part) else { return nil }
    return try followed(transaction) { try transaction.value(of: key, in: family) }
  }

  /// Where another program writes, it may have dropped what is read here: the extension was unregistered, or rebuilt.
  private func followed<Result>(_ transaction: ReadTransaction, _ body: () throws -> Result) throws -> Result {
    guard let content else { return try body() }
    return try content.reading(transaction, name, body)
  }

  /// Sets the value of a key. Throws `.keyTooLong`, `.valueTooLong` and `.batchTooLarge`; then nothing was written.
  public func put(_ part: String, _ key: [UInt8], _ value: [UInt8]) throws {
    let writing = try writing()
    try check(key, value.count, writing)
    try writing.pending.put(key, value, in: try registered.makeFamily(part))
  }

  /// The storage would find it at the commit, where nothing can be done about it any more.
  @inline(__always)
  private func check(_ key: [UInt8], _ valueSize: Int, _ writing: WriteTransaction) throws {
    let limits = writing.database.limits
    guard key.count <= limits.keySize, valueSize <= limits.valueSize,
      writing.pending.byteCount + key.count + valueSize <= limits.batchSize
    else { throw tooLarge(key, valueSize, limits) }
  }

  private func tooLarge(_ key: [UInt8], _ valueSize: Int, _ limits: StorageLimits) -> DatabaseError {
    if key.count > limits.keySize {
      return DatabaseError(
        .keyTooLong,
        "a key of extension \"\(name)\" has \(key.count) bytes, and the storage takes \(limits.keySize)")
    }
    if valueSize > limits.valueSize {
      return DatabaseError(
        .valueTooLong,
        "a value of extension \"\(name)\" has \(valueSize) bytes, and the storage takes \(limits.valueSize)")
    }
    return DatabaseError(
      .batchTooLarge,
      "with an entry of extension \"\(name)\" the transaction takes more than the \(limits.batchSize) bytes of a commit"
    )
  }

  /// Removes a key.
  public func delete(_ part: String, _ key: [UInt8]) throws {
    let writing = try writing()
    guard let family = registered.family(part) else { return }
    try writing.pending.delete(key, in: family)
  }

  /// Removes a range of keys.
  public func deleteRange(_ part: String, _ range: StorageRange) throws {
    let writing = try writing()
    guard let family = registered.family(part) else { return }
    try writing.pending.deleteRange(range, in: family)
  }

  /// Adds to a counter. A part has counters or values, not both.
  public func add(_ part: String, _ number: Int64, to key: [UInt8]) throws {
    let writing = try writing()
    try check(key, 8, writing)
    try writing.pending.add(number, to: key, in: try registered.makeFamily(part, isCounter: true))
  }

  /// The number that a counter says.
  public func counter(_ part: String, _ key: [UInt8]) throws -> Int64 {
    try get(part, key).flatMap(StorageBatch.counterNumber) ?? 0
  }

  /// The first entry of a range of a part, as it is now; nil where the range is empty. Complexity: a seek, however much
  /// the transaction has written and whatever comes after the range.
  public func first(_ part: String, in range: StorageRange = StorageRange()) throws -> (key: [UInt8], value: [UInt8])? {
    let transaction = try reading()
    guard let family = family(part) else { return nil }
    return try followed(transaction) { try transaction.first(of: range, in: family) }
  }

  /// Iterates a range of a part, as it is now: later writes don't change what the cursor returns.
  public func cursor(_ part: String, _ range: StorageRange = StorageRange(), isReverse: Bool = false) throws
    -> PartCursor
  {
    let transaction = try reading()
    guard let family = family(part) else { return PartCursor(nil, transaction, nil) }
    return PartCursor(
      transaction.cursor(range, in: family, isReverse: isReverse), transaction, content.map { ($0, name) })
  }

  private func writing() throws -> WriteTransaction {
    _ = try reading()
    guard let writing = writer else {
      throw DatabaseError(.readOnly, "extension \"\(name)\" writes in a read; a hook or a write may")
    }
    try writing.requireNoQuestion()
    return writing
  }

  // MARK: - Settings

  /// A setting; nil where it is not set. `isPersistent` says which of the two sets of settings is meant: the one
  /// on disk, or the one in memory, which begins empty at each open.
  public func setting(_ key: String, isPersistent: Bool = true) throws -> ExtensionSetting? {
    let transaction = try reading()
    let family = isPersistent ? registered.settingsFamily(isPersistent: true) : volatileSettings
    guard let family else { return nil }
    let number = content?.number ?? registered.number
    return try followed(transaction) {
      try transaction.value(of: registered.settingKey(key, number: number), in: family)
    }.map { try ExtensionSetting($0) }
  }

  /// Sets or, with nil, removes a setting.
  public func set(_ setting: ExtensionSetting?, for key: String, isPersistent: Bool = true) throws {
    let writing = try writing()
    let family = try registered.makeSettingsFamily(isPersistent: isPersistent)
    if let setting {
      let bytes = setting.bytes
      let key = registered.settingKey(key, number: registered.number)
      try check(key, bytes.count, writing)
      try writing.pending.put(key, bytes, in: family)
    } else {
      try writing.pending.delete(registered.settingKey(key, number: registered.number), in: family)
    }
  }

  private var volatileSettings: StorageFamily? {
    if let content { return content.volatileSettings }
    return registered.settingsFamily(isPersistent: false)
  }
}

/// A cursor over a part of an extension.
public struct PartCursor {
  private var cursor: FamilyCursor?
  private let transaction: ReadTransaction
  /// Where another program writes: what it keeps, and the extension's name.
  private let followed: (content: ExtensionContent, name: String)?

  init(_ cursor: FamilyCursor?, _ transaction: ReadTransaction, _ followed: (ExtensionContent, String)?) {
    self.cursor = cursor
    self.transaction = transaction
    self.followed = followed
  }

  /// The next entry; nil behind the last.
  public mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    try transaction.check()
    guard let followed else { return try cursor?.next() }
    return try followed.content.reading(transaction, followed.name) { try cursor?.next() }
  }
}

/// A value that an extension keeps about itself.
///
/// ```
///  byte 0        1 bool, 2 integer, 3 double, 4 string, 5 data
///  to the end    1 byte; 8 bytes big-endian; 8 bytes of the bit pattern, big-endian; UTF-8; the bytes
/// ```
/// On disk: never change.
public enum ExtensionSetting: Hashable, Sendable {
  /// Yes or no.
  case bool(Bool)
  /// A whole number.
  case integer(Int)
  /// A number.
  case double(Double)
  /// Text.
  case string(String)
  /// Bytes.
  case data([UInt8])

  var bytes: [UInt8] {
    switch self {
    case .bool(let value): [1, value ? 1 : 0]
    case .integer(let value): [2] + BigEndian.bytes(Int64(value))
    case .double(let value): [3] + BigEndian.bytes(value.bitPattern)
    case .string(let value): [4] + Array(value.utf8)
    case .data(let value): [5] + value
    }
  }

  package init(_ bytes: [UInt8]) throws {
    switch (bytes.first, bytes.count) {
    case (1, 2) where bytes[1] <= 1: self = .bool(bytes[1] == 1)
    case (2, 9): self = .integer(Int(BigEndian.number(bytes, at: 1, as: Int64.self) ?? 0))
    case (3, 9): self = .double(Double(bitPattern: BigEndian.number(bytes, at: 1, as: UInt64.self) ?? 0))
    case (4, _):
      guard let text = String(validating: bytes.dropFirst(), as: UTF8.self) else { throw Self.damaged }
      self = .string(text)
    case (5, _): self = .data(Array(bytes.dropFirst()))
    default: throw Self.damaged
    }
  }

  private static var damaged: DatabaseError { DatabaseError(.corruption, "a setting of an extension is damaged") }
}

extension ExtensionSetting {
  /// The value of a `bool`; nil of every other kind.
  public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
  /// The value of an `integer`; nil of every other kind.
  public var integerValue: Int? { if case .integer(let value) = self { value } else { nil } }
  /// The value of a `double`; nil of every other kind.
  public var doubleValue: Double? { if case .double(let value) = self { value } else { nil } }
  /// The value of a `string`; nil of every other kind.
  public var stringValue: String? { if case .string(let value) = self { value } else { nil } }
  /// The value of a `data`; nil of every other kind.
  public var dataValue: [UInt8]? { if case .data(let value) = self { value } else { nil } }
}

extension ExtensionSetting: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByStringLiteral
{
  /// A `bool`.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// An `integer`.
  public init(integerLiteral value: Int) { self = .integer(value) }
  /// A `double`.
  public init(floatLiteral value: Double) { self = .double(value) }
  /// A `string`.
  public init(stringLiteral value: String) { self = .string(value) }
}
