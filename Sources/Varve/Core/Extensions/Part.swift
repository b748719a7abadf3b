/// A part of an extension in one transaction: an ordered map of bytes to bytes.
///
/// Reads see what the transaction has written. What is written belongs to the transaction: it is committed or undone
/// with the rows. Every call throws `.transactionEnded` after the transaction's end.
public struct Part {
  private let open: OpenExtension
  private let slot: Int
  private let isCounter: Bool

  init(_ open: OpenExtension, _ slot: Int) {
    self.open = open
    self.slot = slot
    isCounter = open.registered.traits.parts[slot].storageOptions.isCounter
  }

  // MARK: - Reading

  /// The value of a key; nil where there is none. Complexity: one look.
  public func get(_ key: [UInt8]) throws -> [UInt8]? {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return nil }
    return try open.followed(transaction) { try transaction.value(of: key, in: family) }
  }

  /// What `body` makes of the value of a key, which it may not keep; nil where there is none. The value is not copied.
  public func withValue<Result>(of key: [UInt8], _ body: (RawSpan) throws -> Result) throws -> Result? {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return nil }
    return try open.followed(transaction) { try transaction.withValue(of: key, in: family, body) }
  }

  /// The values of several keys, in their order; nil for each that has none.
  public func values(_ keys: [[UInt8]]) throws -> [[UInt8]?] {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return keys.map { _ in nil } }
    return try open.followed(transaction) {
      if !transaction.isWritable { return try transaction.snapshot.values(of: keys, in: family) }
      return try keys.map { try transaction.value(of: $0, in: family) }
    }
  }

  /// The number that a counter says; 0 where nothing was ever added to it.
  public func counter(_ key: [UInt8]) throws -> Int64 { try get(key).flatMap(StorageBatch.counterNumber) ?? 0 }

  /// How many entries a range has. Complexity: O(n).
  public func count(_ range: StorageRange = StorageRange()) throws -> Int {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return 0 }
    return try open.followed(transaction) { try transaction.cursor(range, in: family, keysOnly: true).count() }
  }

  /// The first entry of a range, or the last one where `isReverse`, as it is now; nil where the range is empty.
  /// Complexity: a seek, however much the transaction has written and whatever comes after the range.
  public func first(
    in range: StorageRange = StorageRange(), isReverse: Bool = false
  ) throws -> (key: [UInt8], value: [UInt8])? {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return nil }
    return try open.followed(transaction) {
      if !isReverse { return try transaction.first(of: range, in: family) }
      var cursor = transaction.cursor(range, in: family, isReverse: true)
      return try cursor.next()
    }
  }

  /// Iterates a range from its beginning, or from its end where `isReverse`, as it is now: later writes don't change
  /// what the cursor returns. With `keysOnly` the values of what is committed are left out.
  public func cursor(
    _ range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> PartCursor {
    let transaction = try open.reading()
    guard let family = open.family(slot) else { return PartCursor(nil, open) }
    return PartCursor(
      transaction.cursor(range, in: family, isReverse: isReverse, keysOnly: keysOnly), open)
  }

  // MARK: - Writing

  /// Sets the value of a key. Throws `.invalidArgument` for a part of counters, `.readOnly` in a read, `.keyTooLong`, `.valueTooLong` and `.batchTooLarge`; then
  /// nothing was written.
  public func put(_ key: RawSpan, _ value: RawSpan) throws {
    if isCounter { throw wrongForm("counters: add to them") }
    try open.check(keySize: key.byteCount, valueSize: value.byteCount)
    guard let (family, pending) = try open.target(slot) else { return }
    try pending.put(key, value, in: family)
  }

  /// Sets the value of a key; key and value are arrays.
  public func put(_ key: [UInt8], _ value: [UInt8]) throws {
    try unsafe put(key.span.bytes, value.span.bytes)
  }

  /// Removes a key, whether it is there or not.
  public func delete(_ key: [UInt8]) throws {
    guard let (family, pending) = try open.target(slot) else { return }
    try pending.delete(key, in: family)
  }

  /// Removes a range of keys.
  public func deleteRange(_ range: StorageRange) throws {
    guard let (family, pending) = try open.target(slot) else { return }
    try pending.deleteRange(range, in: family)
  }

  /// Adds to a counter, without a read; one that is not there counts as zero. Throws `.invalidArgument` for a part that
  /// has no counters.
  public func add(_ number: Int64, to key: [UInt8]) throws {
    guard isCounter else { throw wrongForm("values, not counters") }
    try open.check(keySize: key.count, valueSize: 8)
    guard let (family, pending) = try open.target(slot) else { return }
    try pending.add(number, to: key, in: family)
  }

  private func wrongForm(_ what: String) -> DatabaseError {
    DatabaseError(
      .invalidArgument,
      "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" has \(what)")
  }
}

@available(*, unavailable)
extension Part: Sendable {}

/// A cursor over a part of an extension. It returns what the part held when it was made.
public struct PartCursor {
  private var cursor: FamilyCursor?
  private let open: OpenExtension

  init(_ cursor: FamilyCursor?, _ open: OpenExtension) {
    self.cursor = cursor
    self.open = open
  }

  /// The next entry; nil after the last.
  public mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    let transaction = try open.reading()
    return try open.followed(transaction) { try cursor?.next() }
  }

  /// What `body` makes of the next entry, whose key and value it may not keep; nil after the last. Nothing is copied.
  public mutating func withNext<Result>(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result
  ) throws -> Result? {
    let transaction = try open.reading()
    return try open.followed(transaction) { try cursor?.withNext(body) } ?? nil
  }

  /// Continues with the first entry at a key or after it, or where the cursor is reverse, at a key or before it.
  /// Entries that were returned can be returned again; the cursor's range bounds where it goes.
  public mutating func seek(to key: [UInt8]) throws {
    _ = try open.reading()
    cursor?.seek(to: key)
  }

  /// Calls `body` with each entry that is left, in order, until it throws.
  public mutating func forEach(_ body: (_ key: [UInt8], _ value: [UInt8]) throws -> Void) throws {
    while let (key, value) = try next() { try body(key, value) }
  }

  /// How many entries are left. Complexity: O(n) of these; nothing is copied.
  public consuming func count() throws -> Int {
    let transaction = try open.reading()
    guard let cursor else { return 0 }
    return try open.followed(transaction) { try cursor.count() }
  }
}
