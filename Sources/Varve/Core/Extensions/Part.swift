/// A part of an extension in one transaction: an ordered map from bytes to bytes.
///
/// Reads see what the transaction has written. Writes belong to the transaction: they are committed or undone together
/// with the rows. Every call throws `.transactionEnded` after the transaction's end.
///
/// # Forms
/// The form in the part's definition (`PartDefinition.Form`) determines which calls the part supports: the others throw
/// `.invalidArgument`, and so does a read of an append-only part to which the transaction has written.
public struct Part {
  let open: OpenExtension
  let slot: Int
  private let form: PartForm
  private let hasUniqueKeys: Bool
  /// Whether the part has counts of its entries.
  let isCounted: Bool
  /// Whether `commitIndependently` may use the part.
  let isIndependent: Bool
  private var isChecked = true

  init(_ open: OpenExtension, _ slot: Int) {
    self.open = open
    self.slot = slot
    let definition = open.registered.traits.parts[slot]
    form = PartForm(definition.form)
    isIndependent = definition.isIndependent
    isCounted = definition.isCounted
    hasUniqueKeys = definition.hasUniqueKeys && form == .writeOnce
  }

  /// The part without checks at the commit of what the transaction reads and writes of it, if the part is independent.
  ///
  /// What is read may have changed by the time of the commit, and if two transactions write a key, the later one wins.
  /// Use it to find keys in ranges that others change all the time, and then read those keys one by one through the
  /// part itself. In `commitIndependently` reads are checked in any case.
  @_spi(Extensions) public var unchecked: Part {
    var part = self
    part.isChecked = false
    return part
  }

  /// Notes a key of an independent part that is read or written, so that it is checked at the commit.
  private func note(_ key: [UInt8], _ family: StorageFamily) {
    // In an independent commit reads are noted anyway, and if two commits write a key without reading it, the later one
    // wins.
    if isChecked, let writer = open.writer, !writer.isIndependent { writer.noteIndependent(key, in: family) }
  }

  private func note(_ range: StorageRange, _ family: StorageFamily) {
    if isChecked, let writer = open.writer, !writer.isIndependent { writer.noteIndependent(range, in: family) }
  }

  /// Notes that a key is written. A put of a unique key needs no check, because no other caller puts it.
  @inline(__always)
  func noteWrite(_ family: StorageFamily, isPut: Bool = true, _ key: () -> [UInt8]) {
    if isIndependent, !(isPut && hasUniqueKeys) { note(key(), family) }
    if let writes = open.partWrites { writes.note(key(), in: family) }
  }

  /// Returns where the part is read, or `nil` if it contains nothing.
  @inline(__always)
  func source() throws -> (ReadTransaction, StorageFamily)? {
    let transaction = try open.readingParts()
    if form == .scratch, !open.hasScratch(slot) { return nil }
    guard let family = try open.checkedFamily(slot, isIndependent: isIndependent) else { return nil }
    if form == .appendOnly, open.hasAppended(to: family) {
      throw wrongForm("is append-only, and the transaction has written to it: read it in another transaction")
    }
    return (transaction, family)
  }

  // MARK: - Reading

  /// A Boolean value that indicates whether the part has all rows of the transaction's snapshot. It is false while the
  /// part is built, even if other parts of its extension are in use.
  public var isReady: Bool {
    get throws {
      let transaction = try open.reading()
      let isReady =
        open.content?.readyParts.contains(PartSet(part: slot))
        ?? open.registered.isReady(part: slot, at: transaction.snapshot.version)
      if !isReady { transaction.sawUnready = true }
      return isReady
    }
  }

  /// Returns the value of a key as the transaction found it, ignoring what the transaction has written, or `nil` if
  /// there is none.
  ///
  /// An append-only part can be read in this way at any time. Complexity: one lookup.
  @_spi(Extensions) public func committedValue(of key: [UInt8]) throws -> [UInt8]? {
    let transaction = try open.readingParts()
    guard form != .scratch, let family = try open.checkedFamily(slot, isIndependent: isIndependent) else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.value(of: key, in: family, from: nil) }
  }

  /// Returns the value of a key of an append-only part, including what the transaction has appended, or `nil` if there
  /// is none. `isAppended` is false if the transaction has certainly not written the key.
  func lastValue(of key: [UInt8], isAppended: Bool) throws -> [UInt8]? {
    if isAppended, let family = try open.checkedFamily(slot, isIndependent: isIndependent),
      let change = try open.appendedChange(of: key, in: family)
    {
      if case .put(let value) = change { return value }
      return nil
    }
    return try committedValue(of: key)
  }

  /// Returns the value of a key, or `nil` if there is none. Complexity: one lookup.
  public func get(_ key: [UInt8]) throws -> [UInt8]? {
    guard let (transaction, family) = try source() else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.value(of: key, in: family) }
  }

  /// Returns the result of `body` for the value of a key, or `nil` if there is none. The value is not copied, and
  /// `body` must not keep it.
  public func withValue<Result>(of key: [UInt8], _ body: (RawSpan) throws -> Result) throws -> Result? {
    guard let (transaction, family) = try source() else { return nil }
    if isIndependent { note(key, family) }
    return try open.followed(transaction) { try transaction.withValue(of: key, in: family, body) }
  }

  /// Returns the values of several keys, in their order, with `nil` for each key without a value.
  public func values(_ keys: [[UInt8]]) throws -> [[UInt8]?] {
    guard let (transaction, family) = try source() else { return keys.map { _ in nil } }
    if isIndependent { for key in keys { note(key, family) } }
    return try open.followed(transaction) {
      if !transaction.isWritable { return try transaction.snapshot.values(of: keys, in: family) }
      return try keys.map { try transaction.value(of: $0, in: family) }
    }
  }

  /// Returns the number of a counter, or 0 if nothing was ever added to it or it was removed. Throws `.invalidArgument`
  /// for a part without counters.
  public func counter(_ key: [UInt8]) throws -> Int64 {
    guard let rule = form.rule else { throw wrongForm("has no counters") }
    return try get(key).flatMap(rule.number) ?? 0
  }

  /// Returns the number of entries in a range. Complexity: O(log n) for a counted part, otherwise O(n).
  public func count(_ range: StorageRange = StorageRange()) throws -> Int {
    guard let (transaction, family) = try source() else { return 0 }
    if isCounted { return try treeCount(range, transaction, family) }
    if isIndependent { note(range, family) }
    return try open.followed(transaction) { try transaction.cursor(range, in: family, keysOnly: true).count() }
  }

  /// Returns the first entry of a range as it is now, or the last one if `isReverse` is true, or `nil` if the range is
  /// empty.
  ///
  /// Complexity: one seek, however much the transaction has written and whatever comes after the range.
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

  /// Returns for each of some ranges whether commits since the transaction's beginning have changed its first entry.
  ///
  /// What the transaction itself has written is ignored, and nothing is noted for the check at the commit.
  ///
  /// Complexity: two seeks for each range, or nothing if there was no such commit.
  @_spi(Extensions) public func haveChanged(firstIn ranges: [StorageRange]) throws -> [Bool] {
    let transaction = try open.readingParts()
    guard form != .scratch, let family = try open.checkedFamily(slot, isIndependent: isIndependent) else {
      return ranges.map { _ in false }
    }
    let known = transaction.snapshot
    let latest = try transaction.database.backend.snapshot(unlessChanged: known)
    if latest.version == known.version { return ranges.map { _ in false } }
    func entry(_ range: StorageRange, _ snapshot: any StorageSnapshot) throws -> (key: [UInt8], value: [UInt8])? {
      var entry: (key: [UInt8], value: [UInt8])?
      try snapshot.visitFirst(of: range, in: family) { entry = ($0.copied, $1.copied) }
      return entry
    }
    return try ranges.map { range in
      let before = try entry(range, known)
      let now = try entry(range, latest)
      return before?.key != now?.key || before?.value != now?.value
    }
  }

  /// Calls `body` with the entries of a range as they are now, in order, until it returns false.
  ///
  /// `body` must not keep the key and the value, and must not write to the part. Nothing is copied.
  ///
  /// Complexity: one seek, however much the transaction has written, and a step for each entry. It is cheaper than a
  /// cursor if few entries are needed.
  public func forEach(
    in range: StorageRange = StorageRange(), _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard let (transaction, family) = try source() else { return }
    if isIndependent { note(range, family) }
    try open.followed(transaction) { try transaction.visitRows(of: range, in: family, body) }
  }

  /// Returns a cursor that iterates over a range from its beginning, or from its end if `isReverse` is true.
  ///
  /// The cursor returns the entries as they are now: later writes have no effect on it. With `keysOnly` it leaves out
  /// the values of committed entries.
  public func cursor(
    _ range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> PartCursor {
    guard let (transaction, family) = try source() else { return PartCursor(nil, open) }
    if isIndependent { note(range, family) }
    return PartCursor(
      transaction.cursor(range, in: family, isReverse: isReverse, keysOnly: keysOnly), open)
  }

  /// The family of the part, or `nil` if the part contains nothing.
  var readFamily: StorageFamily? { get throws { try source()?.1 } }

  /// Returns a cursor that may outlive the transaction, or `nil` if the part contains nothing.
  func familyCursor(
    _ range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> FamilyCursor? {
    guard let (transaction, family) = try source() else { return nil }
    return transaction.cursor(range, in: family, isReverse: isReverse, keysOnly: keysOnly)
  }

  // MARK: - Writing

  /// Sets the value of a key.
  ///
  /// Throws `.invalidArgument` for a part of counters, `.readOnly` in a read, `.keyTooLong`, `.valueTooLong` and
  /// `.batchTooLarge`; nothing was written in that case.
  ///
  /// A key of a write-once part must not have a value already: debug builds stop at a second put, and other builds let
  /// the second value win. To detect this, each put looks up the key, first in what the transaction has written and
  /// then in what is committed, unless the definition declares that keys are unique (`PartDefinition.hasUniqueKeys`).
  public func put(_ key: RawSpan, _ value: RawSpan) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    try open.check(keySize: key.byteCount, valueSize: value.byteCount)
    guard let (family, pending) = try target() else { return }
    noteWrite(family) { key.copied }
    if isCounted, Self.looksAnyway { try requireReplaced(key.copied, family) }
    switch form {
    case .appendOnly: try pending.append(.put, key, value, in: family)
    case .writeOnce:
      // A build keeps only the last put of a key that it collects. Two rows that were read at different snapshots may
      // have the same key.
      if open.writer?.spill == nil { try makeRoom(key.copied, family, pending) }
      try pending.put(key, value, in: family)
    case .values, .sums, .maxima, .scratch: try pending.put(key, value, in: family)
    }
  }

  /// Sets the value of a key, with arrays for the key and the value.
  public func put(_ key: [UInt8], _ value: [UInt8]) throws {
    try unsafe put(key.span.bytes, value.span.bytes)
  }

  /// Sets the value of a key, and stamps the key or the value with the number of the commit: eight bytes, big-endian,
  /// which replace those at `location`.
  ///
  /// The number is known only at the commit. Until then the bytes are `StampPosition.pending`, eight times 0xFF: reads
  /// return them, and `get` and `delete` find a stamped key by them. Among keys with the same prefix before the stamp,
  /// those of the transaction come last, in the order of what follows the stamp. Throws as `put` does, and
  /// `.invalidArgument` if the eight bytes do not lie within the key or the value. In a write-once part a key with a
  /// stamp is looked up only in what the transaction has written.
  public func putStamped(_ key: [UInt8], _ value: [UInt8], at location: StampPosition) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    if isCounted { throw wrongForm("is counted: it takes no stamps") }
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
    // The key's position in the order of keys is known only at the commit.
    if case .key(let offset) = location {
      open.partWrites?.note(StorageRange(prefix: Array(key[..<offset])), in: family)
    }
    if form == .appendOnly { return try pending.appendStamped(key, value, at: location, in: family) }
    if form == .writeOnce, !hasUniqueKeys || Self.looksAnyway {
      let pendingKey = location.pending(key, value).key
      // No earlier commit has the number of this one, so a stamped key can't be committed already.
      if pendingKey == key || pending.decides(pendingKey, in: family) { try makeRoom(pendingKey, family, pending) }
    }
    try pending.putStamped(key, value, at: location, in: family)
  }

  /// Removes a key, whether it exists or not.
  public func delete(_ key: [UInt8]) throws {
    if isCounted { throw wrongForm("is counted: remove a key that it has") }
    guard let (family, pending) = try target() else { return }
    noteWrite(family, isPut: false) { key }
    switch form {
    case .appendOnly: try unsafe pending.append(.delete, key.span.bytes, RawSpan(), in: family)
    case .writeOnce:
      // Concurrent transactions rely on the rule that a unique key is put once: a second removal of such a key removes
      // nothing else.
      if !hasUniqueKeys { open.writer?.noteKey(key, in: family) }
      try pending.singleDelete(key, in: family)
    case .values, .sums, .maxima, .scratch: try pending.delete(key, in: family)
    }
  }

  /// Sets the value of a key by a blind write, which costs less than `put`.
  ///
  /// A blind write is not visible in the transaction before the commit, is applied after all writes that are not blind,
  /// in the order of the calls, and conflicts with nothing. Use it for a key that the transaction neither reads
  /// afterwards nor writes otherwise. Throws as `put` does.
  @_spi(Extensions) public func blindPut(_ key: [UInt8], _ value: [UInt8]) throws {
    if form.rule != nil { throw wrongForm("has counters: add to them") }
    if isCounted { throw wrongForm("is counted: it takes no blind writes") }
    try open.check(keySize: key.count, valueSize: value.count)
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try unsafe pending.append(.put, key.span.bytes, value.span.bytes, in: family)
  }

  /// Removes a key by a blind write: see `blindPut`.
  @_spi(Extensions) public func blindDelete(_ key: [UInt8]) throws {
    if isCounted { throw wrongForm("is counted: it takes no blind writes") }
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try unsafe pending.append(form == .writeOnce ? .singleDelete : .delete, key.span.bytes, RawSpan(), in: family)
  }

  /// Removes a range of keys.
  public func deleteRange(_ range: StorageRange) throws {
    guard let (family, pending) = try target() else { return }
    if isCounted, let writer = open.writer, writer.spill == nil {
      try writer.countRemoval(of: range, open, slot, in: family)
    }
    if isIndependent { note(range, family) }
    open.partWrites?.note(range, in: family)
    guard form == .appendOnly else { return try pending.deleteRange(range, in: family) }
    if range.isEmpty { return }
    let upper = range.upper ?? []
    try unsafe pending.append(
      range.upper == nil ? .deleteToEnd : .deleteRange, range.lower.span.bytes, upper.span.bytes, in: family)
  }

  /// Applies a number to a counter without reading it: adds the number, or keeps it if it is the largest so far, by the
  /// part's rule.
  ///
  /// A counter that does not exist begins with the number. The call conflicts with nothing, even if other transactions
  /// change the counter concurrently. Throws `.invalidArgument` for a part without counters.
  public func add(_ number: Int64, to key: [UInt8]) throws {
    guard let rule = form.rule else { throw wrongForm("has no counters") }
    try open.check(keySize: key.count, valueSize: 8)
    guard let (family, pending) = try target() else { return }
    open.partWrites?.note(key, in: family)
    try pending.add(number, by: rule, to: key, in: family)
  }

  /// Returns where the part is written, or `nil` if the write is discarded.
  @inline(__always)
  func target() throws -> (StorageFamily, any StorageWriting)? {
    form == .scratch ? try open.scratchTarget(slot) : try open.target(slot)
  }

  /// Removes a write-once key that has a value before it is put again, so that every key is put only once, whatever
  /// comes later.
  private func makeRoom(_ key: [UInt8], _ family: StorageFamily, _ pending: any StorageWriting) throws {
    if hasUniqueKeys, !Self.looksAnyway { return }
    guard try open.reading().withValue(of: key, in: family, { _ in true }) != nil else { return }
    assertionFailure(
      "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" is write-once, and a key is put again"
    )
    try pending.singleDelete(key, in: family)
  }

  /// Whether keys are looked up to find mistakes of the extension, because assertions are enabled.
  static let looksAnyway: Bool = {
    var isOn = false
    assert(
      {
        isOn = true
        return true
      }())
    return isOn
  }()

  func wrongForm(_ what: String) -> DatabaseError {
    DatabaseError(
      .invalidArgument, "part \"\(open.registered.traits.parts[slot].name)\" of extension \"\(open.name)\" \(what)")
  }
}

@available(*, unavailable)
extension Part: Sendable {}

/// A cursor over a part of an extension. It returns the entries that the part had when the cursor was made.
public struct PartCursor {
  private var cursor: FamilyCursor?
  private let open: OpenExtension

  init(_ cursor: FamilyCursor?, _ open: OpenExtension) {
    self.cursor = cursor
    self.open = open
  }

  /// Returns the next entry, or `nil` after the last.
  public mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    let transaction = try open.reading()
    return try open.followed(transaction) { try cursor?.next() }
  }

  /// Returns the result of `body` for the next entry, or `nil` after the last. Nothing is copied, and `body` must not
  /// keep the key and the value.
  public mutating func withNext<Result>(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result
  ) throws -> Result? {
    let transaction = try open.reading()
    return try open.followed(transaction) { try cursor?.withNext(body) } ?? nil
  }

  /// Moves the cursor to the first entry at or after a key, or, if it is reverse, at or before the key.
  ///
  /// Entries that were returned may be returned again. The cursor stays within its range.
  public mutating func seek(to key: [UInt8]) throws {
    _ = try open.reading()
    cursor?.seek(to: key)
  }

  /// Calls `body` with each remaining entry, in order, until it throws.
  public mutating func forEach(_ body: (_ key: [UInt8], _ value: [UInt8]) throws -> Void) throws {
    while let (key, value) = try next() { try body(key, value) }
  }

  /// Returns the number of remaining entries. Complexity: O(n) of these; nothing is copied.
  public consuming func count() throws -> Int {
    let transaction = try open.reading()
    guard let cursor else { return 0 }
    return try open.followed(transaction) { try cursor.count() }
  }
}
