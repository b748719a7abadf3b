/// What a transaction writes, in sorted arrays, for a storage without writing of its own.
///
/// Every key has one entry, its newest. A savepoint is a copy. It is kept simple, not fast: an entry costs the moving of
/// those after it.
///
/// # Order of a batch
/// The ranges that were cleared come first, then the entries: what was put into a range after it was cleared has
/// an entry, and what was put before has none any more.
public final class BufferedWriting: StorageWriting {
  private let snapshot: any StorageSnapshot
  private var content = BufferedContent()
  private var savepoints: [BufferedContent] = []
  /// The numbers of families that no commit has.
  private var leftOut: Set<UInt32> = []

  /// Nothing yet, over a snapshot.
  public init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  /// Whether the commit would write nothing.
  public var isEmpty: Bool {
    content.appended.isEmpty && content.families.allSatisfy { $0.value.isEmpty || leftOut.contains($0.key) }
  }
  /// About how many bytes the batch takes, and what is left out.
  public var byteCount: Int { content.byteCount + content.appended.byteCount }

  /// What the commit writes, and after it another batch.
  public func batch(then last: StorageBatch = StorageBatch()) -> StorageBatch {
    var batch = StorageBatch(capacity: byteCount + last.byteCount)
    let families = content.families.values.filter { !leftOut.contains($0.family.number) }
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

  /// A put over a single delete is both.
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

  /// Sets the value of a key that the commit completes.
  public func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) {
    let (key, value) = position.pending(key, value)
    set(key, value, position, family)
  }

  /// Gives a number to a counter.
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

  /// Adds a change to those that come last.
  public func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily
  ) {
    content.appended.append(operation, key, value, in: family)
    content.appendedFamilies.insert(family.number)
  }

  /// Adds a stamped put to those changes.
  public func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) {
    let (key, value) = position.pending(key, value)
    content.appended.putStamped(key, value, at: position, in: family)
    content.appendedFamilies.insert(family.number)
  }

  /// Whether one of them goes to a family.
  public func hasAppended(to family: StorageFamily) -> Bool { content.appendedFamilies.contains(family.number) }

  /// Leaves a family out of the batch.
  public func leaveOut(_ family: StorageFamily) { leftOut.insert(family.number) }

  /// Whether a family is left out.
  public func leavesOut(_ family: StorageFamily) -> Bool { leftOut.contains(family.number) }

  /// Removes a range.
  public func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    if !range.isEmpty { content.clear(range, family) }
  }

  // MARK: - Reading

  /// The value of a key.
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

  /// As `StorageWriting` says.
  public func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    try view(of: family).visitRows(of: range, in: family, body)
  }

  /// The first entry of a range.
  public func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    try view(of: family).visitFirst(of: range, in: family, body)
  }

  /// Whether the snapshot does not matter.
  public func decides(_ key: [UInt8], in family: StorageFamily) -> Bool {
    switch content.families[family.number]?.find(key) {
    case nil, .add: false
    case .put, .singleDelete, .delete: true
    }
  }

  /// A copy. Complexity: constant, but the next entry of the family copies it.
  public func view(of family: StorageFamily) -> any StorageReading {
    BufferedView(snapshot, content.families[family.number] ?? BufferedFamily(family))
  }

  // MARK: - Savepoints

  /// Copies what there is.
  public func setSavepoint() { savepoints.append(content) }
  /// Forgets the last copy.
  public func releaseSavepoint() { savepoints.removeLast() }
  /// Goes back to the last copy.
  public func rollBack() { content = savepoints.removeLast() }
}

/// What was written of a key.
private enum BufferedEntry: Sendable {
  /// With the position of the commit's version; `replaces`: after the single delete of what the snapshot has.
  case put([UInt8], StampPosition?, replaces: Bool)
  case delete
  case singleDelete
  /// The counter of the snapshot takes this.
  case add(Int64, CounterRule)

  var size: Int {
    switch self {
    case .put(let value, _, _): value.count + 5
    case .delete, .singleDelete: 0
    case .add: 8
    }
  }

  /// Whether it has a single delete of what the snapshot has.
  var removesOne: Bool {
    switch self {
    case .singleDelete, .put(_, _, replaces: true): true
    case .put, .delete, .add: false
    }
  }
}

/// What was written to all families.
private struct BufferedContent {
  var families: [UInt32: BufferedFamily] = [:]
  var byteCount = 0
  var appended = StorageBatch()
  var appendedFamilies: Set<UInt32> = []

  /// What a batch needs besides a key and a value, at most.
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

/// What was written to one family.
private struct BufferedFamily: Sendable {
  let family: StorageFamily
  /// In order.
  private var entries: [(key: [UInt8], entry: BufferedEntry)] = []
  /// Ranges of the snapshot that are gone. Entries count before them.
  private(set) var cleared = KeyRanges()

  init(_ family: StorageFamily) { self.family = family }

  var isEmpty: Bool { entries.isEmpty && cleared.isEmpty }

  func find(_ key: [UInt8]) -> BufferedEntry? {
    let index = index(of: key)
    if index < entries.count, entries[index].key == key { return entries[index].entry }
    return cleared.contains(key) ? .delete : nil
  }

  /// Returns what was there.
  mutating func set(_ key: [UInt8], _ entry: BufferedEntry) -> BufferedEntry? {
    let index = index(of: key)
    if index < entries.count, entries[index].key == key {
      defer { entries[index].entry = entry }
      return entries[index].entry
    }
    entries.insert((key, entry), at: index)
    return nil
  }

  /// Removes an entry, and returns it.
  mutating func forget(_ key: [UInt8]) -> BufferedEntry? {
    let index = index(of: key)
    guard index < entries.count, entries[index].key == key else { return nil }
    return entries.remove(at: index).entry
  }

  /// Clears a range, and returns the entries that it had.
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
      if ByteOrder.precedes(entries[middle].key, key) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

/// A family as a transaction saw it: a copy of what it had written, over the snapshot.
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

  /// The key that comes first in the direction.
  private static func first(_ left: [UInt8]?, _ right: [UInt8]?, _ isReverse: Bool) -> [UInt8]? {
    guard let left, let right else { return left ?? right }
    return ByteOrder.precedes(left, right) != isReverse ? left : right
  }

  private static func value(_ entry: BufferedEntry, over base: [UInt8]?) -> [UInt8]? {
    switch entry {
    case .put(let value, _, _): value
    case .delete, .singleDelete: nil
    case .add(let number, let rule): rule.bytes(rule.taking(number, into: base.flatMap(rule.number)))
    }
  }
}
