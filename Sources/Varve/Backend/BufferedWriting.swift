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

  /// Nothing yet, over a snapshot.
  public init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  /// Whether the commit would write nothing.
  public var isEmpty: Bool { content.families.values.allSatisfy(\.isEmpty) }
  /// About how many bytes the batch takes.
  public var byteCount: Int { content.byteCount }

  /// What the commit writes, and after it another batch.
  public func batch(then last: StorageBatch = StorageBatch()) -> StorageBatch {
    var batch = StorageBatch(capacity: byteCount + last.byteCount)
    let families = content.families.values.sorted { $0.family.number < $1.family.number }
    for written in families { for range in written.cleared.ranges { batch.deleteRange(range, in: written.family) } }
    for written in families { written.addEntries(to: &batch) }
    batch.append(last)
    return batch
  }

  // MARK: - Writing

  /// Sets the value of a key.
  public func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) {
    content.set(key.copied, .put(value.copied), family)
  }

  /// Removes a key.
  public func delete(_ key: [UInt8], in family: StorageFamily) { content.set(key, .delete, family) }

  /// Sets the value of a key that the commit completes.
  public func putStamped(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) {
    content.set(Array(repeating: 0xFF, count: 8) + key.dropFirst(8), .putStamped(value), family)
  }

  /// Adds to a counter.
  public func add(_ number: Int64, to key: [UInt8], in family: StorageFamily) {
    let entry: BufferedEntry =
      switch content.families[family.number]?.find(key) {
      case nil: .add(number)
      case .delete: .put(StorageBatch.counterBytes(number))
      case .add(let before): .add(before &+ number)
      case .put(let value), .putStamped(let value):
        .put(StorageBatch.counterBytes((StorageBatch.counterNumber(value) ?? 0) &+ number))
      }
    content.set(key, entry, family)
  }

  /// Removes a range.
  public func deleteRange(_ range: StorageRange, in family: StorageFamily) {
    if !range.isEmpty { content.clear(range, family) }
  }

  // MARK: - Reading

  /// The value of a key.
  public func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    switch content.families[family.number]?.find(key) {
    case .put(let value), .putStamped(let value): unsafe try body(value.span.bytes)
    case .delete: return
    case .add(let number):
      let base = try snapshot.value(of: key, in: family).flatMap(StorageBatch.counterNumber) ?? 0
      let sum = StorageBatch.counterBytes(base &+ number)
      unsafe try body(sum.span.bytes)
    case nil: try snapshot.visit(key, in: family, body)
    }
  }

  /// The first entry of a range.
  public func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    let page = try view(of: family).page(
      range, in: family, isReverse: false, keysOnly: false, byteLimit: 1, rowLimit: 1)
    guard page.count > 0 else { return }
    let (key, value) = (page.key(0), page.value(0))
    unsafe try body(key.span.bytes, value.span.bytes)
  }

  /// Whether the snapshot does not matter.
  public func decides(_ key: [UInt8], in family: StorageFamily) -> Bool {
    switch content.families[family.number]?.find(key) {
    case nil, .add: false
    case .put, .putStamped, .delete: true
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
  case put([UInt8])
  case putStamped([UInt8])
  case delete
  /// The counter of the snapshot, plus this.
  case add(Int64)

  var size: Int {
    switch self {
    case .put(let value), .putStamped(let value): value.count
    case .delete: 0
    case .add: 8
    }
  }
}

/// What was written to all families.
private struct BufferedContent {
  var families: [UInt32: BufferedFamily] = [:]
  var byteCount = 0

  /// What a batch needs besides a key and a value, at most.
  private static let entryOverhead = 32

  mutating func set(_ key: [UInt8], _ entry: BufferedEntry, _ family: StorageFamily) {
    let previous = families[family.number, default: BufferedFamily(family)].set(key, entry)
    byteCount += entry.size + (previous.map { -$0.size } ?? key.count + Self.entryOverhead)
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
      case .put(let value): batch.put(key, value, in: family)
      case .putStamped(let value): batch.putStamped(key, value, in: family)
      case .delete: batch.delete(key, in: family)
      case .add(let number): batch.add(number, to: key, in: family)
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
    case .put(let value), .putStamped(let value): value
    case .delete: nil
    case .add(let number): StorageBatch.counterBytes((base.flatMap(StorageBatch.counterNumber) ?? 0) &+ number)
    }
  }
}
