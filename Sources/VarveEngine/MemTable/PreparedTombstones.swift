/// The range tombstones of a large batch, cut into fragments before its commit leads.
///
/// Inserted one by one, 400,000 tombstones keep every other writer waiting for as long as their searches take. So the
/// writer of a large batch sorts their bounds once, on its own time, and the leader only adds the commit's first
/// sequence to what is ready and hands it to the memtable (`RangeTombstoneTree.adopt`).
///
/// # Cutting
/// The bounds are sorted, equal ones counted once; between two neighbours all keys are alike. The tombstones are then
/// laid over these intervals from the newest to the oldest, each where no newer one lies; a chain of the intervals that
/// are still free passes the others in constant time, nearly. Where two neighbours differ is a boundary. The boundaries,
/// which are in order, become a treap by one pass with a stack.
///
/// # Memory
/// A tombstone keeps its record and at most two boundaries, 120 bytes with keys of eight bytes, and the whole batch one
/// version: readers see all of an edit or nothing of it. While it is put together it takes up to 80 bytes more, of
/// which 60 are free again before the first boundary is made.
///
/// Complexity: O(n log n) for n tombstones.
///
/// # Concurrency
/// Made by the batch's writer; then the commit leader's, whose memtable takes the parts over.
final class PreparedTombstones: @unchecked Sendable {
  // Sendable: see Concurrency above.

  /// Batches with fewer range deletes are inserted one by one.
  static let countMinimum = 4_096
  /// With so many for one family, a memtable that has range tombstones already is frozen for them.
  static let freezingCount = 16_384

  private var parts: [FamilyID: Part] = [:]

  /// The tombstones of a batch's payload, by family. `isVolatile` says whether a family is: entries of such families have
  /// the lower sequences of a commit.
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

  /// Asks again only where the family is another one than before.
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

  /// What there is for a family.
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
  /// Records and nodes live in `memory`, until a tree takes it over.
  @safe
  final class Part {
    private var memory = TombstoneMemory()
    /// How many tombstones there are, and what their records take.
    private(set) var count = 0
    private var recordsSize = 0
    /// The first record and the last.
    private var records: TombstoneRecord?
    private var last: TombstoneRecord?
    private var nodes: TombstoneNodes?
    private(set) var root: TombstoneNode?

    /// The indexes in the commit's order of the first range delete and of the last one.
    var firstIndex: UInt32 { records?.index ?? 0 }
    var lastIndex: UInt32 { last?.index ?? 0 }
    var nodeCount: Int { nodes?.count ?? 0 }
    /// What the memtable will take over.
    var memorySize: Int { memory.size }

    /// Counts a tombstone that will be appended.
    fileprivate func count(_ start: ByteView, _ end: ByteView) {
      count += 1
      recordsSize += TombstoneRecord.size(start, end)
    }

    /// Makes room for all that were counted.
    fileprivate func reserve() throws(EngineError) {
      records = try unsafe TombstoneRecord(memory.reserve(recordsSize))
      recordsSize = 0
    }

    /// Adds a tombstone whose entry has this index in the commit's order, from 0 on.
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
        // Indexes from 1 on, so that 0 means that no tombstone covers it.
        let sequence = SequenceNumber(record.map { UInt64($0.index) + 1 } ?? 0)
        boundaries[index].initialize(key, sequence, priority: memory.nextRandom(), edit: 0)
        index += 1
      }
      nodes = boundaries
      root = boundaries.link()
    }

    /// The version of the whole edit, after its boundaries have their sequences: that of the batch's first entry and
    /// their index. The memory goes to the tree.
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

/// The tombstones of a part, cut: see "Cutting" of `PreparedTombstones`.
///
/// A bound has a number: that of its tombstone times two, and one more where the tombstone ends.
///
/// # Concurrency
/// One thread's.
private struct TombstoneCut: ~Copyable {
  private struct Bound: BitwiseCopyable {
    let head: UInt64
    let number: UInt32
  }

  private let records: TombstoneRecord
  /// Of each tombstone the position of its record.
  private var locations: ScratchArray<UInt32>
  /// Of each bound its position among all different ones, and of each of these one bound.
  private var ranks: ScratchArray<UInt32>
  private var firsts: ScratchArray<UInt32>
  private var firstCount = 0
  /// Of the interval after each different bound the newest tombstone over it, counted from 1; 0 where there is none.
  private var cover: ScratchArray<UInt32>

  /// Cuts so many tombstones. Throws `.noMemory`.
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

  /// How many bytes all bounds share at their beginning: heads say nothing there.
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
    /// The next interval at or after each that may be free.
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

  /// How many bounds have another tombstone over the keys after them than over those before.
  var boundaryCount: Int {
    var count = 0
    forEachBoundary { _, _ in count += 1 }
    return count
  }

  /// Calls `body` with the key of each of them, ascending, and the tombstone over the keys after it.
  func forEachBoundary(_ body: (ByteView, TombstoneRecord?) -> Void) {
    var last: UInt32 = 0
    for rank in 0..<firstCount where cover[rank] != last {
      last = cover[rank]
      body(key(firsts[rank]), last == 0 ? nil : record(Int(last - 1)))
    }
  }
}

/// The boundaries of a prepared edit, which follow each other in the order of their keys.
///
/// # Safety
/// They live in the memory that they were allocated in.
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

  /// Makes them a treap, and returns its root.
  func link() -> TombstoneNode? {
    // The right edge of what is linked, from the root down.
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
