public import Varve

/// The writes of a transaction, kept in sorted arrays, for a storage of a test that does not implement `StorageWriting`
/// itself: a ``BufferingBackend``.
///
/// Each key has one entry, its newest. A savepoint is a copy of the entries. The implementation is simple, not fast:
/// inserting an entry moves all entries after it.
///
/// # Order of a batch
/// The cleared ranges come first, then the entries. A key that was put into a range after the range was cleared has an
/// entry; a key that was put before has none, because clearing the range removed it.
public final class BufferedWriting: StorageWriting {
  private let snapshot: any StorageSnapshot
  private var content = BufferedContent()
  private var savepoints: [BufferedContent] = []
  /// The numbers of the families that are excluded from the commit.
  private var scratchFamilies: Set<UInt32> = []

  /// Creates an empty set of writes over a snapshot.
  public init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  /// Whether the commit would write nothing.
  public var isEmpty: Bool {
    content.appended.isEmpty && content.families.allSatisfy { $0.value.isEmpty || scratchFamilies.contains($0.key) }
  }
  /// The approximate number of bytes of the batch, including the bytes written to families that are left out.
  public var byteCount: Int { content.byteCount + content.appended.byteCount }

  /// Returns the batch that the commit writes, followed by the changes of `last`.
  public func batch(then last: StorageBatch = StorageBatch()) -> StorageBatch {
    var batch = StorageBatch(capacity: byteCount + last.byteCount)
    let families = content.families.values.filter { !scratchFamilies.contains($0.family.number) }
      .sorted { $0.family.number < $1.family.number }
    for written in families { for range in written.cleared.ranges { batch.deleteRange(range, in: written.family) } }
    for written in families { written.addEntries(to: &batch) }
    batch.append(content.appended)
    batch.append(last)
    return batch
  }

  // MARK: - Writing

  /// Sets the value of a key.
  public func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) {
    set(key.copied, value.copied, nil, family)
  }

  /// Sets an entry for a key. A put that follows a single delete keeps the single delete: the batch writes both.
  private func set(_ key: [UInt8], _ value: [UInt8], _ stamp: StampPosition?, _ family: StorageFamily) {
    let before = content.families[family.number]?.find(key)
    content.set(key, .put(value, stamp, replaces: before?.removesOne ?? false), family)
  }

  /// Removes a key.
  public func delete(_ key: [UInt8], in family: StorageFamily) { content.set(key, .delete, family) }

  /// Removes a key that was put at most once.
  public func singleDelete(_ key: [UInt8], in family: StorageFamily) throws {
    switch content.families[family.number]?.find(key) {
    case .put(_, _, replaces: false): content.forget(key, family)
    case .put, .add: content.set(key, .singleDelete, family)
    case .delete, .singleDelete: return
    case nil: if try snapshot.contains(key, in: family) { content.set(key, .singleDelete, family) }
    }
  }

  /// Sets the value of a key in which the commit fills in its version.
  public func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) {
    let (key, value) = position.pending(key, value)
    set(key, value, position, family)
  }

  /// Applies a number to a counter.
  public func add(_ number: Int64, by rule: CounterRule, to key: [UInt8], in family: StorageFamily) {
    let entry: BufferedEntry =
      switch content.families[family.number]?.find(key) {
      case nil: .add(number, rule)
      case .delete, .singleDelete: .put(rule.bytes(number), nil, replaces: false)
      case .add(let before, _): .add(rule.taking(number, into: before), rule)
      case .put(let value, _, _): .put(rule.bytes(rule.taking(number, into: rule.number(value))), nil, replaces: false)
      }
    content.set(key, entry, family)
  }

  // MARK: - Apart from the rest

  /// Appends a change that is written after all entries.
  public func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily
  ) {
    content.appended.append(operation, key, value, in: family)
    content.appendedFamilies.insert(family.number)
  }

  /// Appends a stamped put that is written after all entries.
  public func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) {
    let (key, value) = position.pending(key, value)
    content.appended.putStamped(key, value, at: position, in: family)
    content.appendedFamilies.insert(family.number)
  }

  /// Returns the last appended change of a key. Complexity: O(n) in the appended changes.
  public func appendedChange(of key: [UInt8], in family: StorageFamily) -> AppendedChange? {
    var found: AppendedChange?
    content.appended.forEach { operation, number, other, value in
      guard number == family.number, other.copied == key else { return }
      switch operation {
      case .put: found = .put(value.copied)
      case .delete, .singleDelete: found = .delete
      case .deleteRange, .deleteToEnd, .add, .putStamped: break
      }
    }
    return found
  }

  /// Returns whether a change was appended for a family.
  public func hasAppended(to family: StorageFamily) -> Bool { content.appendedFamilies.contains(family.number) }

  /// Leaves a family out of the batch.
  public func markAsScratch(_ family: StorageFamily) { scratchFamilies.insert(family.number) }

  /// Returns whether a family is left out of the batch.
  public func isScratch(_ family: StorageFamily) -> Bool { scratchFamilies.contains(family.number) }

  /// Removes the keys of a range.
  public func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    if !range.isEmpty { content.clear(range, family) }
  }

  // MARK: - Reading

  /// Calls `body` with the value of a key, if it has one.
  public func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    switch content.families[family.number]?.find(key) {
    case .put(let value, _, _): unsafe try body(value.span.bytes)
    case .delete, .singleDelete: return
    case .add(let number, let rule):
      let base = try snapshot.value(of: key, in: family).flatMap(rule.number)
      let taken = rule.bytes(rule.taking(number, into: base))
      unsafe try body(taken.span.bytes)
    case nil: try snapshot.visit(key, in: family, body)
    }
  }

  /// Calls `body` with the rows of a range in key order, until it returns false.
  public func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    try view(of: family).visitRows(of: range, in: family, body)
  }

  /// Calls `body` with the first row of a range, if there is one.
  public func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    try view(of: family).visitFirst(of: range, in: family, body)
  }

  /// Returns whether the writes alone determine the value of a key, so that the snapshot need not be read.
  public func decides(_ key: [UInt8], in family: StorageFamily) -> Bool {
    switch content.families[family.number]?.find(key) {
    case nil, .add: false
    case .put, .singleDelete, .delete: true
    }
  }

  /// Returns a copy of the family's writes over the snapshot. Complexity: constant, but the next write to the family
  /// copies its entries.
  public func view(of family: StorageFamily) -> any StorageReading {
    BufferedView(snapshot, content.families[family.number] ?? BufferedFamily(family))
  }

  // MARK: - Savepoints

  /// Saves a copy of the current writes.
  public func setSavepoint() { savepoints.append(content) }
  /// Discards the last savepoint and keeps the writes since.
  public func releaseSavepoint() { savepoints.removeLast() }
  /// Restores the writes of the last savepoint and removes that savepoint.
  public func rollBack() { content = savepoints.removeLast() }
}

/// The last operation on a key.
private enum BufferedEntry: Sendable {
  /// A put with an optional position for the commit's version. `replaces` is true if a single delete of the snapshot's
  /// value comes before the put.
  case put([UInt8], StampPosition?, replaces: Bool)
  case delete
  case singleDelete
  /// A number that is applied to the counter of the snapshot.
  case add(Int64, CounterRule)

  var size: Int {
    switch self {
    case .put(let value, _, _): value.count + 5
    case .delete, .singleDelete: 0
    case .add: 8
    }
  }

  /// Whether the entry includes a single delete of the snapshot's value.
  var removesOne: Bool {
    switch self {
    case .singleDelete, .put(_, _, replaces: true): true
    case .put, .delete, .add: false
    }
  }
}

/// The writes to all families.
private struct BufferedContent {
  var families: [UInt32: BufferedFamily] = [:]
  var byteCount = 0
  var appended = StorageBatch()
  var appendedFamilies: Set<UInt32> = []

  /// The maximum size of a batch operation in addition to its key and its value.
  private static let entryOverhead = 32

  mutating func set(_ key: [UInt8], _ entry: BufferedEntry, _ family: StorageFamily) {
    let previous = families[family.number, default: BufferedFamily(family)].set(key, entry)
    byteCount += entry.size + (previous.map { -$0.size } ?? key.count + Self.entryOverhead)
  }

  mutating func forget(_ key: [UInt8], _ family: StorageFamily) {
    guard let gone = families[family.number]?.forget(key) else { return }
    byteCount -= key.count + gone.size + Self.entryOverhead
  }

  mutating func clear(_ range: StorageRange, _ family: StorageFamily) {
    let gone = families[family.number, default: BufferedFamily(family)].clear(range)
    for (key, entry) in gone { byteCount -= key.count + entry.size + Self.entryOverhead }
    byteCount += range.lower.count + (range.upper?.count ?? 0) + Self.entryOverhead
  }
}

/// The writes to one family.
private struct BufferedFamily: Sendable {
  let family: StorageFamily
  /// The entries in key order.
  private var entries: [(key: [UInt8], entry: BufferedEntry)] = []
  /// The ranges of the snapshot that were deleted. Entries take precedence over them.
  private(set) var cleared = KeyRanges()

  init(_ family: StorageFamily) { self.family = family }

  var isEmpty: Bool { entries.isEmpty && cleared.isEmpty }

  func find(_ key: [UInt8]) -> BufferedEntry? {
    let index = index(of: key)
    if index < entries.count, entries[index].key == key { return entries[index].entry }
    return cleared.contains(key) ? .delete : nil
  }

  /// Sets the entry of a key and returns the previous one, or nil if there was none.
  mutating func set(_ key: [UInt8], _ entry: BufferedEntry) -> BufferedEntry? {
    let index = index(of: key)
    if index < entries.count, entries[index].key == key {
      defer { entries[index].entry = entry }
      return entries[index].entry
    }
    entries.insert((key, entry), at: index)
    return nil
  }

  /// Removes the entry of a key and returns it.
  mutating func forget(_ key: [UInt8]) -> BufferedEntry? {
    let index = index(of: key)
    guard index < entries.count, entries[index].key == key else { return nil }
    return entries.remove(at: index).entry
  }

  /// Clears a range and returns the entries that were in it.
  mutating func clear(_ range: StorageRange) -> [(key: [UInt8], entry: BufferedEntry)] {
    let indexes = indexes(of: range)
    defer {
      entries.removeSubrange(indexes)
      cleared.insert(range)
    }
    return Array(entries[indexes])
  }

  func entries(in range: StorageRange) -> [(key: [UInt8], entry: BufferedEntry)] { Array(entries[indexes(of: range)]) }

  func addEntries(to batch: inout StorageBatch) {
    for (key, entry) in entries {
      switch entry {
      case .put(let value, let stamp, let replaces):
        if replaces { batch.singleDelete(key, in: family) }
        if let stamp {
          batch.putStamped(key, value, at: stamp, in: family)
        } else {
          batch.put(key, value, in: family)
        }
      case .delete: batch.delete(key, in: family)
      case .singleDelete: batch.singleDelete(key, in: family)
      case .add(let number, let rule): batch.add(number, by: rule, to: key, in: family)
      }
    }
  }

  private func indexes(of range: StorageRange) -> Range<Int> {
    let lower = index(of: range.lower)
    return lower..<max(lower, range.upper.map { index(of: $0) } ?? entries.count)
  }

  /// The index of the first entry that is not before `key`.
  private func index(of key: [UInt8]) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].key.lexicographicallyPrecedes(key) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

/// A family as a transaction saw it: a copy of its writes over the snapshot.
private final class BufferedView: StorageReading {
  private let snapshot: any StorageSnapshot
  private let written: BufferedFamily

  init(_ snapshot: any StorageSnapshot, _ written: BufferedFamily) {
    self.snapshot = snapshot
    self.written = written
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    let base = try snapshot.value(of: key, in: family)
    guard let value = written.find(key).map({ Self.value($0, over: base) }) ?? base else { return }
    unsafe try body(value.span.bytes)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    var page = StoragePage()
    var base = FamilyCursor(range, in: family, of: snapshot, isReverse: isReverse, keysOnly: false)
    var below = try base.next()
    var own = written.entries(in: range.isEmpty ? StorageRange(upper: []) : range)[...]
    if isReverse { own = own.reversed()[...] }
    while page.count < rowLimit, page.byteCount < byteLimit || page.count == 0 {
      guard let key = Self.first(below?.key, own.first?.key, isReverse) else { break }
      let entry = own.first?.key == key ? own.removeFirst().entry : written.find(key)
      let value = below?.key == key ? below?.value : nil
      if below?.key == key { below = try base.next() }
      guard let found = entry.map({ Self.value($0, over: value) }) ?? value else { continue }
      page.append(key: key, value: keysOnly ? [] : found)
    }
    page.isLast = below == nil && own.isEmpty
    return page
  }

  /// Returns the key that comes first in the direction of the scan.
  private static func first(_ left: [UInt8]?, _ right: [UInt8]?, _ isReverse: Bool) -> [UInt8]? {
    guard let left, let right else { return left ?? right }
    return left.lexicographicallyPrecedes(right) != isReverse ? left : right
  }

  private static func value(_ entry: BufferedEntry, over base: [UInt8]?) -> [UInt8]? {
    switch entry {
    case .put(let value, _, _): value
    case .delete, .singleDelete: nil
    case .add(let number, let rule): rule.bytes(rule.taking(number, into: base.flatMap(rule.number)))
    }
  }
}

extension RawSpan {
  /// A copy of the bytes as an array.
  fileprivate var copied: [UInt8] { unsafe withUnsafeBytes { bytes in unsafe [UInt8](bytes) } }
}
