/// The range tombstones of a large batch, cut into fragments before the batch's commit becomes the leader.
///
/// If they were inserted one by one, 400,000 tombstones would keep every other writer waiting for the duration of
/// their searches. So the writer of a large batch sorts their bounds once, on its own time. The leader then only adds
/// the commit's first sequence number to the prepared edit and passes it to the memtable
/// (`RangeTombstoneTree.adopt`).
///
/// # Cutting
/// The bounds are sorted and equal ones are merged, so that the keys between two neighbors are all covered alike.
/// The tombstones are then applied to these intervals from the newest to the oldest, each only where no newer one
/// lies; a chain of the intervals that are still free skips the others in nearly constant time. A bound at which the
/// two neighboring intervals differ is a boundary. The boundaries, which are in order, become a treap by one pass
/// with a stack.
///
/// # Memory
/// A tombstone keeps its record and at most two boundaries, 120 bytes with keys of eight bytes. The whole batch has
/// one version, because readers see all of an edit or nothing of it. While it is prepared it takes up to 80 bytes
/// more per tombstone, of which 60 are freed before the first boundary is created.
///
/// Complexity: O(n log n) for n tombstones.
///
/// # Concurrency
/// The batch's writer creates the object. After that it belongs to the commit leader, whose memtable takes the parts
/// over.
final class PreparedTombstones: @unchecked Sendable {
  // Sendable: see Concurrency above.

  /// The number of range deletes below which they are inserted one by one.
  static let countMinimum = 4_096
  /// The number of tombstones for one family from which a memtable that already has range tombstones is frozen first.
  static let freezingCount = 16_384

  private var parts: [FamilyID: Part] = [:]

  /// Prepares the tombstones of a batch's payload, by family. `isVolatile` returns whether a family is volatile:
  /// entries of such families have the lower sequence numbers of a commit.
  ///
  /// Throws `.noMemory`, and `.corruption` as a reader of the batch does.
  init(_ payload: ByteView, isVolatile: @escaping (FamilyID) -> Bool = { _ in false }) throws(EngineError) {
    var sizes = BatchReader(payload)
    var families = LastAnswer(isVolatile)
    var nextVolatile: UInt32 = 0
    var nextLogged: UInt32 = 0
    while let entry = try sizes.next() {
      if entry.kind == .rangeDelete { part(entry.family).count(entry.key, entry.value) }
      if families.isVolatile(entry.family) { nextLogged += 1 }
    }
    for part in parts.values { try part.reserve() }
    var reader = BatchReader(payload)
    while let entry = try reader.next() {
      let isVolatile = families.isVolatile(entry.family)
      if entry.kind == .rangeDelete {
        part(entry.family).append(entry.key, entry.value, index: isVolatile ? nextVolatile : nextLogged)
      }
      if isVolatile { nextVolatile += 1 } else { nextLogged += 1 }
    }
    for part in parts.values { try part.build() }
  }

  /// Caches the last answer, and asks again only if the family is a different one.
  private struct LastAnswer {
    private let ask: (FamilyID) -> Bool
    private var last: (family: FamilyID, isVolatile: Bool)?

    init(_ ask: @escaping (FamilyID) -> Bool) { self.ask = ask }

    mutating func isVolatile(_ family: FamilyID) -> Bool {
      if let last, last.family == family { return last.isVolatile }
      let isVolatile = ask(family)
      last = (family, isVolatile)
      return isVolatile
    }
  }

  /// Returns the tombstones of a family, or nil if it has none.
  func part(of family: FamilyID) -> Part? { parts[family] }

  private func part(_ family: FamilyID) -> Part {
    if let part = parts[family] { return part }
    let part = Part()
    parts[family] = part
    return part
  }

  /// The tombstones of one family.
  ///
  /// # Safety
  /// Records and nodes live in `memory` until a tree takes it over.
  @safe
  final class Part {
    private var memory = TombstoneMemory()
    /// The number of tombstones, and the bytes that their records take.
    private(set) var count = 0
    private var recordsSize = 0
    /// The first and the last record.
    private var records: TombstoneRecord?
    private var last: TombstoneRecord?
    private var nodes: TombstoneNodes?
    private(set) var root: TombstoneNode?

    /// The indices of the first and the last range delete, in the commit's order.
    var firstIndex: UInt32 { records?.index ?? 0 }
    var lastIndex: UInt32 { last?.index ?? 0 }
    var nodeCount: Int { nodes?.count ?? 0 }
    /// The bytes that the memtable will take over.
    var memorySize: Int { memory.size }

    /// Counts a tombstone that will be appended.
    fileprivate func count(_ start: ByteView, _ end: ByteView) {
      count += 1
      recordsSize += TombstoneRecord.size(start, end)
    }

    /// Allocates memory for all counted tombstones.
    fileprivate func reserve() throws(EngineError) {
      records = try unsafe TombstoneRecord(memory.reserve(recordsSize))
      recordsSize = 0
    }

    /// Appends a tombstone whose entry has this index in the commit's order, from 0 on.
    fileprivate func append(_ start: ByteView, _ end: ByteView, index: UInt32) {
      guard let record = records?.record(at: UInt32(recordsSize / TombstoneRecord.alignment)) else { return }
      record.initialize(start, end, index: index)
      last = record
      recordsSize += TombstoneRecord.size(start, end)
    }

    fileprivate func build() throws(EngineError) {
      guard let records else { return }
      let cut = try TombstoneCut.make(records, count: count)
      let boundaries = try TombstoneNodes(&memory, count: cut.boundaryCount)
      var index = 0
      cut.forEachBoundary { key, record in
        // Indices begin at 1, so that 0 means that no tombstone covers the range.
        let sequence = SequenceNumber(record.map { UInt64($0.index) + 1 } ?? 0)
        boundaries[index].initialize(key, sequence, priority: memory.nextRandom(), edit: 0)
        index += 1
      }
      nodes = boundaries
      root = boundaries.link()
    }

    /// Returns the version of the whole edit, after setting the sequence number of each boundary to that of the
    /// batch's first entry plus its index. The memory moves to the tree.
    func takeVersion(first: SequenceNumber, memory target: inout TombstoneMemory) -> TombstoneVersion? {
      guard let records, let last, let nodes else { return nil }
      for index in 0..<nodes.count where nodes[index].sequence != .zero {
        nodes[index].sequence = SequenceNumber(first.value + nodes[index].sequence.value - 1)
      }
      let version = unsafe TombstoneVersion(memory.allocate(TombstoneVersion.size))
      version.initialize(
        SequenceNumber(first.value + UInt64(last.index)), records: records, count: UInt32(count), first: first)
      target.adopt(&memory)
      return version
    }
  }
}

/// The tombstones of a part, cut as described in "Cutting" of `PreparedTombstones`.
///
/// The number of a bound is twice the number of its tombstone, plus one if it is the end.
///
/// # Concurrency
/// The value belongs to one thread.
private struct TombstoneCut: ~Copyable {
  private struct Bound: BitwiseCopyable {
    let head: UInt64
    let number: UInt32
  }

  private let records: TombstoneRecord
  /// The position of each tombstone's record.
  private var locations: ScratchArray<UInt32>
  /// The position of each bound among all distinct ones, and one bound for each of those.
  private var ranks: ScratchArray<UInt32>
  private var firsts: ScratchArray<UInt32>
  private var firstCount = 0
  /// The newest tombstone over the interval after each distinct bound, counted from 1, or 0 if there is none.
  private var cover: ScratchArray<UInt32>

  /// Cuts `count` tombstones. Throws `.noMemory`.
  static func make(_ records: TombstoneRecord, count: Int) throws(EngineError) -> TombstoneCut {
    let locations = try ScratchArray<UInt32>(repeating: 0, count: count)
    let ranks = try ScratchArray<UInt32>(repeating: 0, count: 2 * count)
    let firsts = try ScratchArray<UInt32>(repeating: 0, count: 2 * count)
    let cover = try ScratchArray<UInt32>(repeating: 0, count: 2 * count)
    var cut = TombstoneCut(records, locations, ranks, firsts, cover)
    try cut.rankBounds()
    try cut.coverIntervals()
    return cut
  }

  private init(
    _ records: TombstoneRecord, _ locations: consuming ScratchArray<UInt32>, _ ranks: consuming ScratchArray<UInt32>,
    _ firsts: consuming ScratchArray<UInt32>, _ cover: consuming ScratchArray<UInt32>
  ) {
    self.records = records
    self.locations = locations
    self.ranks = ranks
    self.firsts = firsts
    self.cover = cover
    var record = records
    for index in 0..<self.locations.count {
      if index > 0 { record = record.next }
      self.locations[index] = record.location(after: records)
    }
  }

  private func record(_ index: Int) -> TombstoneRecord { records.record(at: locations[index]) }

  private func key(_ number: UInt32) -> ByteView {
    let record = record(Int(number >> 1))
    return number & 1 == 0 ? record.start : record.end
  }

  private mutating func rankBounds() throws(EngineError) {
    let shared = sharedPrefixSize
    var bounds = try ScratchArray(repeating: Bound(head: 0, number: 0), count: 2 * locations.count)
    for number in 0..<UInt32(bounds.count) {
      bounds[Int(number)] = Bound(head: key(number).head(from: shared), number: number)
    }
    try bounds.sort { left, right in
      left.head != right.head ? left.head < right.head : key(left.number).compare(key(right.number)) < 0
    }
    for index in 0..<bounds.count {
      let here = bounds[index]
      let isNew =
        index == 0 || bounds[index - 1].head != here.head
        || key(bounds[index - 1].number).compare(key(here.number)) != 0
      if isNew {
        firsts[firstCount] = here.number
        firstCount += 1
      }
      ranks[Int(here.number)] = UInt32(firstCount - 1)
    }
  }

  /// The number of leading bytes that all bounds share, where heads would not distinguish them.
  private var sharedPrefixSize: Int {
    let first = records.start
    var size = first.count
    for index in 0..<locations.count {
      let record = record(index)
      size = min(size, first.sharedPrefixCount(record.start), first.sharedPrefixCount(record.end))
    }
    return size
  }

  private mutating func coverIntervals() throws(EngineError) {
    /// The next interval at or after each one that may be free.
    var next = try ScratchArray<UInt32>(repeating: 0, count: firstCount + 1)
    for rank in 0...firstCount { next[rank] = UInt32(rank) }
    for index in (0..<locations.count).reversed() {
      let end = ranks[2 * index + 1]
      var rank = Self.free(from: ranks[2 * index], &next)
      while rank < end {
        cover[Int(rank)] = UInt32(index + 1)
        next[Int(rank)] = rank + 1
        rank = Self.free(from: rank + 1, &next)
      }
    }
  }

  private static func free(from rank: UInt32, _ next: inout ScratchArray<UInt32>) -> UInt32 {
    var here = rank
    while next[Int(here)] != here {
      next[Int(here)] = next[Int(next[Int(here)])]
      here = next[Int(here)]
    }
    return here
  }

  /// The number of boundaries: bounds at which the tombstone over the keys changes.
  var boundaryCount: Int {
    var count = 0
    forEachBoundary { _, _ in count += 1 }
    return count
  }

  /// Calls `body` with the key of each boundary, ascending, and the tombstone over the keys after it.
  func forEachBoundary(_ body: (ByteView, TombstoneRecord?) -> Void) {
    var last: UInt32 = 0
    for rank in 0..<firstCount where cover[rank] != last {
      last = cover[rank]
      body(key(firsts[rank]), last == 0 ? nil : record(Int(last - 1)))
    }
  }
}

/// The boundaries of a prepared edit, contiguous in the order of their keys.
///
/// # Safety
/// The boundaries live in the memory in which they were allocated.
@safe
private struct TombstoneNodes {
  private let base: UnsafeMutableRawPointer
  let count: Int

  init(_ memory: inout TombstoneMemory, count: Int) throws(EngineError) {
    unsafe base = try memory.reserve(count * TombstoneNode.size)
    self.count = count
  }

  subscript(index: Int) -> TombstoneNode {
    assert(index >= 0 && index < count, "a boundary that was not allocated")
    return unsafe TombstoneNode(base + index * TombstoneNode.size)
  }

  /// Links the boundaries into a treap, and returns its root.
  func link() -> TombstoneNode? {
    // The right edge of the linked part, from the root down.
    var edge: [TombstoneNode] = []
    for index in 0..<count {
      let node = self[index]
      var below: TombstoneNode?
      while let last = edge.last, last.priority <= node.priority { below = edge.removeLast() }
      node.left = below
      edge.last?.right = node
      edge.append(node)
    }
    return edge.first
  }
}
