/// A part of an extension in one transaction: an ordered map of bytes to bytes.
///
/// Reads see what the transaction has written. What is written belongs to the transaction: it is committed or undone
/// with the rows. Every call throws `.transactionEnded` after the transaction's end.
///
/// # Forms
/// What its definition says (`PartDefinition.Form`) decides which calls it takes: the others throw `.invalidArgument`, and
/// so does a read of an append-only part to which the transaction has written.
public struct Part {
  private let open: OpenExtension
  private let slot: Int
  private let form: PartForm
  private let hasUniqueKeys: Bool
  /// Whether `commitAside` may use it.
  let isIndependent: Bool
  private var isChecked = true

  init(_ open: OpenExtension, _ slot: Int) {
    self.open = open
    self.slot = slot
    let definition = open.registered.traits.parts[slot]
    form = PartForm(definition.form)
    isIndependent = definition.isIndependent
    hasUniqueKeys = definition.hasUniqueKeys && form == .writeOnce
  }

  /// The same part of which a transaction's reads and writes are not checked at the commit, where the part is independent: what
  /// it reads may have changed when it commits, and of two that write a key the later wins. For finding keys in ranges that others
  /// change all the time, which are then looked at one by one through the part itself. In `commitAside` reads are checked
  /// all the same.
  public var unchecked: Part {
    var part = self
    part.isChecked = false
    return part
  }

  /// What is read or written of an independent part is checked at the commit.
  private func note(_ key: [UInt8], _ family: StorageFamily) {
    // Beside the writer, what is read is noted anyway, and of two that write a key without a look the later wins.
    if isChecked, let writer = open.writer, !writer.isAside { writer.noteIndependent(key, in: family) }
  }

  private func note(_ range: StorageRange, _ family: StorageFamily) {
    if isChecked, let writer = open.writer, !writer.isAside { writer.noteIndependent(range, in: family) }
  }

  /// A key is written. No other caller puts one that is given once.
  @inline(__always)
  private func noteWrite(_ family: StorageFamily, isPut: Bool = true, _ key: () -> [UInt8]) {
    if isIndependent, !(isPut && hasUniqueKeys) { note(key(), family) }
    if let writes = open.partWrites { writes.note(key(), in: family) }
  }

  /// Where a read looks; nil where the part holds nothing.
  @inline(__always)
  private func source() throws -> (ReadTransaction, StorageFamily)? {
    let transaction = try open.readingParts()
    if form == .scratch, !open.hasScratch(slot) { return nil }
    guard let family = try open.checkedFamily(slot, isIndependent: isIndependent) else { return nil }
    if form == .appendOnly, open.hasAppended(to: family) {
      throw wrongForm("is append-only, and the transaction has written to it: read it in another transaction")
    }
    return (transaction, family)
  }

  // MARK: - Reading

  /// Whether the part has all rows of the transaction's snapshot: false while it is built, also where other parts of its
  /// extension are in use.
  public var isReady: Bool {
    get throws {
      let transaction = try open.reading()
      let isReady =
        open.content?.readyParts.contains(PartSet(part: slot))
        ?? open.registered.isReady(part: slot, at: transaction.snapshot.version)
      if !isReady { transaction.metUnready = true }
      return isReady
    }
  }

  /// The value of a key as the transaction found it, without what it has written; nil where there is none. An append-only
  /// part can be read so at any time. Complexity: one look.
  public func committedValue(of key: [UInt8]) throws -> [UInt8]? {
    let transaction = try open.readingParts()
    guard form != .scratch, let family = try open.checkedFamily(slot, isIndependent: isIndependent) else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.value(of: key, in: family, from: nil) }
  }

  /// The value of a key; nil where there is none. Complexity: one look.
  public func get(_ key: [UInt8]) throws -> [UInt8]? {
    guard let (transaction, family) = try source() else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.value(of: key, in: family) }
  }

  /// What `body` makes of the value of a key, which it may not keep; nil where there is none. The value is not copied.
  public func withValue<Result>(of key: [UInt8], _ body: (RawSpan) throws -> Result) throws -> Result? {
    guard let (transaction, family) = try source() else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.withValue(of: key, in: family, body) }
  }

  /// The values of several keys, in their order; nil for each that has none.
  public func values(_ keys: [[UInt8]]) throws -> [[UInt8]?] {
    guard let (transaction, family) = try source() else { return keys.map { _ in nil } }
    if isIndependent { for key in keys { note(key, family) } }
    return try open.followed(transaction) {
      if !transaction.isWritable { return try transaction.snapshot.values(of: keys, in: family) }
      return try keys.map { try transaction.value(of: $0, in: family) }
    }
  }

  /// The number that a counter says; 0 where it has never taken one, or was removed. Throws `.invalidArgument` for a part
  /// that has no counters.
  public func counter(_ key: [UInt8]) throws -> Int64 {
    guard let rule = form.rule else { throw wrongForm("has no counters") }
    return try get(key).flatMap(rule.number) ?? 0
  }

  /// How many entries a range has. Complexity: O(n).
  public func count(_ range: StorageRange = StorageRange()) throws -> Int {
    guard let (transaction, family) = try source() else { return 0 }
    if isIndependent { note(range, family) }
    return try open.followed(transaction) { try transaction.cursor(range, in: family, keysOnly: true).count() }
  }

  /// The first entry of a range, or the last one where `isReverse`, as it is now; nil where the range is empty.
  /// Complexity: a seek, however much the transaction has written and whatever comes after the range.
  public func first(
    in range: StorageRange = StorageRange(), isReverse: Bool = false
  ) throws -> (key: [UInt8], value: [UInt8])? {
    guard let (transaction, family) = try source() else { return nil }
    if isIndependent { note(range, family) }
    return try open.followed(transaction) {
      if !isReverse { return try transaction.first(of: range, in: family) }
      var cursor = transaction.cursor(range, in: family, isReverse: true)
      return try cursor.next()
    }
  }

  /// Calls `body` with the entries of a range as they are now, in their order, until it returns false. It may not keep key and
  /// value, and may not write to the part. Nothing is copied.
  ///
  /// Complexity: a seek, however much the transaction has written, and a step for each entry: cheaper than a cursor where few
  /// entries are wanted.
  public func forEach(
    in range: StorageRange = StorageRange(), _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard let (transaction, family) = try source() else { return }
    if isIndependent { note(range, family) }
    try open.followed(transaction) { try transaction.visitRows(of: range, in: family, body) }
  }

  /// Iterates a range from its beginning, or from its end where `isReverse`, as it is now: later writes don't change
  /// what the cursor returns. With `keysOnly` the values of what is committed are left out.
  public func cursor(
    _ range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> PartCursor {
    guard let (transaction, family) = try source() else { return PartCursor(nil, open) }
    if isIndependent { note(range, family) }
    return PartCursor(
      transaction.cursor(range, in: family, isReverse: isReverse, keysOnly: keysOnly), open)
  }

  /// Where the part is; nil where it holds nothing.
  var readFamily: StorageFamily? { get throws { try source()?.1 } }

  /// The same as what may outlive the transaction; nil where the part holds nothing.
  func familyCursor(
    _ range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> FamilyCursor? {
    guard let (transaction, family) = try source() else { return nil }
    return transaction.cursor(range, in: family, isReverse: isReverse, keysOnly: keysOnly)
  }

  // MARK: - Writing

  /// Sets the value of a key. Throws `.invalidArgument` for a part of counters, `.readOnly` in a read, `.keyTooLong`,
  /// `.valueTooLong` and `.batchTooLarge`; then nothing was written.
  ///
  /// A key of a write-once part must not have a value: debug builds stop at a second put. Other builds let it win. To know
  /// that, each put looks for the key, in what the transaction has written and then in what is committed, unless the definition
  /// says that keys are unique (`PartDefinition.hasUniqueKeys`).
  public func put(_ key: RawSpan, _ value: RawSpan) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    try open.check(keySize: key.byteCount, valueSize: value.byteCount)
    guard let (family, pending) = try target() else { return }
    noteWrite(family) { key.copied }
    switch form {
    case .appendOnly: try pending.append(.put, key, value, in: family)
    case .writeOnce:
      // Of what a build collects a key is put once, the last one. Two rows that were read at two snapshots may have the same.
      if open.writer?.spill == nil { try makeRoom(key.copied, family, pending) }
      try pending.put(key, value, in: family)
    case .values, .sums, .maxima, .scratch: try pending.put(key, value, in: family)
    }
  }

  /// Sets the value of a key; key and value are arrays.
  public func put(_ key: [UInt8], _ value: [UInt8]) throws {
    try unsafe put(key.span.bytes, value.span.bytes)
  }

  /// Sets the value of a key, with the number of the commit in the key or the value: eight bytes, big-endian, which
  /// replace those that are there.
  ///
  /// The number is known at the commit only. Until then the bytes are `StampPosition.pending`, eight times 0xFF: reads return
  /// them, `get` and `delete` find a stamped key by them, and of keys with one prefix before the stamp those of the
  /// transaction come last, in the order of what follows the stamp. Throws as `put`, and `.invalidArgument` where the eight
  /// bytes do not lie within the key or the value. In a write-once part a key with a stamp is looked for only in what the
  /// transaction has written.
  public func putStamped(_ key: [UInt8], _ value: [UInt8], at location: StampPosition) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    let (offset, size) =
      switch location {
      case .key(let offset): (offset, key.count)
      case .value(let offset): (offset, value.count)
      }
    guard offset >= 0, offset <= size - StampPosition.pending.count else {
      throw DatabaseError(
        .invalidArgument, "extension \"\(open.name)\" puts a stamp of 8 bytes at byte \(offset) of \(size)")
    }
    try open.check(keySize: key.count, valueSize: value.count)
    guard let (family, pending) = try target() else { return }
    noteWrite(family) { location.pending(key, value).key }
    // Its position in the order of keys is known at the commit.
    if case .key(let offset) = location {
      open.partWrites?.note(StorageRange(prefix: Array(key[..<offset])), in: family)
    }
    if form == .appendOnly { return try pending.appendStamped(key, value, at: location, in: family) }
    if form == .writeOnce, !hasUniqueKeys || Self.looksAnyway {
      let pendingKey = location.pending(key, value).key
      // No commit before has the number of this one.
      if pendingKey == key || pending.decides(pendingKey, in: family) { try makeRoom(pendingKey, family, pending) }
    }
    try pending.putStamped(key, value, at: location, in: family)
  }

  /// Removes a key, whether it is there or not.
  public func delete(_ key: [UInt8]) throws {
    guard let (family, pending) = try target() else { return }
    noteWrite(family, isPut: false) { key }
    switch form {
    case .appendOnly: try unsafe pending.append(.delete, key.span.bytes, RawSpan(), in: family)
    case .writeOnce:
      // Beside other writers it relies on the rule that a key is put once: a second removal of one that is given once removes
      // nothing else.
      if !hasUniqueKeys { open.writer?.noteKey(key, in: family) }
      try pending.singleDelete(key, in: family)
    case .values, .sums, .maxima, .scratch: try pending.delete(key, in: family)
    }
  }

  /// Sets the value of a key as a blind write, which costs less than `put`: nothing in the transaction sees it before the commit, it is
  /// applied after all writes that are not blind, in the order of the calls, and it conflicts with nothing. For a key that the
  /// transaction neither reads afterwards nor writes otherwise. Throws as `put`.
  public func blindPut(_ key: [UInt8], _ value: [UInt8]) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    try open.check(keySize: key.count, valueSize: value.count)
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try unsafe pending.append(.put, key.span.bytes, value.span.bytes, in: family)
  }

  /// Removes a key by a blind write: see `blindPut`.
  public func blindDelete(_ key: [UInt8]) throws {
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try unsafe pending.append(form == .writeOnce ? .singleDelete : .delete, key.span.bytes, RawSpan(), in: family)
  }

  /// Removes a range of keys.
  public func deleteRange(_ range: StorageRange) throws {
    guard let (family, pending) = try target() else { return }
    if isIndependent { note(range, family) }
    open.partWrites?.note(range, in: family)
    guard form == .appendOnly else { return try pending.deleteRange(range, in: family) }
    if range.isEmpty { return }
    let upper = range.upper ?? []
    try unsafe pending.append(
      range.upper == nil ? .deleteToEnd : .deleteRange, range.lower.span.bytes, upper.span.bytes, in: family)
  }

  /// Gives a number to a counter, without a read: it is added, or kept if it is the largest so far. A counter that is not
  /// there begins with the number. It conflicts with nothing, also where others give numbers to it beside the transaction. Throws `.invalidArgument` for a part that has no counters.
  public func add(_ number: Int64, to key: [UInt8]) throws {
    guard let rule = form.rule else { throw wrongForm("has no counters") }
    try open.check(keySize: key.count, valueSize: 8)
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try pending.add(number, by: rule, to: key, in: family)
  }

  /// Where the part is written to; nil where the write goes nowhere.
  @inline(__always)
  private func target() throws -> (StorageFamily, any StorageWriting)? {
    form == .scratch ? try open.scratchTarget(slot) : try open.target(slot)
  }

  /// A write-once key that has a value is removed before it is put again: so it was put once, whatever comes later.
  private func makeRoom(_ key: [UInt8], _ family: StorageFamily, _ pending: any StorageWriting) throws {
    if hasUniqueKeys, !Self.looksAnyway { return }
    guard try open.reading().withValue(of: key, in: family, { _ in true }) != nil else { return }
    assertionFailure(
      "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" is write-once, and a key is put again"
    )
    try pending.singleDelete(key, in: family)
  }

  /// Whether assertions are on.
  private static let looksAnyway: Bool = {
    var isOn = false
    assert(
      {
        isOn = true
        return true
      }())
    return isOn
  }()

  private func wrongForm(_ what: String) -> DatabaseError {
    DatabaseError(
      .invalidArgument, "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" \(what)")
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
