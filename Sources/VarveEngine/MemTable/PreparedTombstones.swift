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
/// Complexity: O(n log n) for n tombstones. Memory: two nodes and a version for each, its keys, and 24 bytes for each
/// bound until it is done.
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

  /// The tombstones of a batch's payload, by family.
  init(_ payload: ByteView) throws(EngineError) {
    var reader = BatchReader(payload)
    var index: UInt64 = 0
    while let entry = try reader.next() {
      if entry.kind == .rangeDelete { part(entry.family).append(entry.key, entry.value, index: index) }
      index += 1
    }
    for part in parts.values { part.build() }
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
  /// Nodes and versions live in `memory`, until a tree takes it over.
  @safe
  final class Part {
    private var memory = TombstoneMemory()
    private var versions: [TombstoneVersion] = []
    private var nodes: [TombstoneNode] = []
    private(set) var root: TombstoneNode?

    var count: Int { versions.count }
    var nodeCount: Int { nodes.count }
    /// What the memtable will take over.
    var memorySize: Int { memory.size }

    /// Adds a tombstone whose entry has this index in the batch.
    fileprivate func append(_ start: ByteView, _ end: ByteView, index: UInt64) {
      let version = unsafe TombstoneVersion(memory.allocate(TombstoneVersion.size))
      version.initialize(
        SequenceNumber(index), root: nil, start: memory.copy(start), end: memory.copy(end), previous: versions.last)
      versions.append(version)
    }

    /// The bound with a number: of each tombstone first where it begins, then where it ends.
    private func bound(_ number: UInt32) -> ByteView {
      let version = versions[Int(number >> 1)]
      return number & 1 == 0 ? version.start : version.end
    }

    fileprivate func build() {
      let (ranks, firsts) = rankBounds()
      let cover = coverIntervals(ranks, count: firsts.count)
      var last: UInt32 = 0
      nodes.reserveCapacity(firsts.count)
      for (rank, number) in firsts.enumerated() where cover[rank] != last {
        last = cover[rank]
        // Indexes from 1 on, so that 0 means that no tombstone covers it.
        let sequence = last == 0 ? 0 : versions[Int(last - 1)].sequence.value + 1
        let node = unsafe TombstoneNode(memory.allocate(TombstoneNode.size))
        node.initialize(bound(number), SequenceNumber(sequence), priority: memory.nextRandom(), edit: 0)
        nodes.append(node)
      }
      root = Self.link(nodes)
    }

    /// Of each bound its place among all different ones, and of each of these one bound.
    private func rankBounds() -> (ranks: [UInt32], firsts: [UInt32]) {
      struct Bound {
        let head: UInt64
        let number: UInt32
      }
      let shared = sharedPrefixSize
      var bounds = (0..<UInt32(2 * versions.count)).map { Bound(head: bound($0).head(from: shared), number: $0) }
      bounds.sort { left, right in
        left.head != right.head ? left.head < right.head : bound(left.number).compare(bound(right.number)) < 0
      }
      var ranks = [UInt32](repeating: 0, count: bounds.count)
      var firsts: [UInt32] = []
      firsts.reserveCapacity(bounds.count)
      var last: Bound?
      for here in bounds {
        let isNew = last.map { $0.head != here.head || bound($0.number) != bound(here.number) } ?? true
        if isNew { firsts.append(here.number) }
        ranks[Int(here.number)] = UInt32(firsts.count - 1)
        last = here
      }
      return (ranks, firsts)
    }

    /// How many bytes all bounds share at their beginning: heads say nothing there.
    private var sharedPrefixSize: Int {
      guard let first = versions.first?.start else { return 0 }
      var size = first.count
      for version in versions {
        size = min(size, first.sharedPrefixCount(version.start), first.sharedPrefixCount(version.end))
      }
      return size
    }

    /// Of the interval after each place the newest tombstone over it, counted from 1; 0 where there is none.
    private func coverIntervals(_ ranks: [UInt32], count: Int) -> [UInt32] {
      var cover = [UInt32](repeating: 0, count: count)
      /// The next interval at or after each that may be free.
      var next = Array(0...UInt32(count))
      func free(from rank: UInt32) -> UInt32 {
        var here = rank
        while next[Int(here)] != here {
          next[Int(here)] = next[Int(next[Int(here)])]
          here = next[Int(here)]
        }
        return here
      }
      for index in versions.indices.reversed() {
        let end = ranks[2 * index + 1]
        var rank = free(from: ranks[2 * index])
        while rank < end {
          cover[Int(rank)] = UInt32(index + 1)
          next[Int(rank)] = rank + 1
          rank = free(from: rank + 1)
        }
      }
      return cover
    }

    /// A treap of nodes that are in order.
    private static func link(_ nodes: [TombstoneNode]) -> TombstoneNode? {
      // The right edge of what is linked, from the root down.
      var edge: [TombstoneNode] = []
      for node in nodes {
        var below: TombstoneNode?
        while let last = edge.last, last.priority <= node.priority { below = edge.removeLast() }
        node.left = below
        edge.last?.right = node
        edge.append(node)
      }
      return edge.first
    }

    /// The newest version, after each has its sequence: that of the batch's first entry and its index. The memory goes
    /// to the tree.
    func takeVersions(first: SequenceNumber, memory target: inout TombstoneMemory) -> TombstoneVersion? {
      for version in versions { version.sequence = SequenceNumber(first.value + version.sequence.value) }
      for node in nodes where node.sequence != .zero {
        node.sequence = SequenceNumber(first.value + node.sequence.value - 1)
      }
      target.adopt(&memory)
      return versions.last
    }
  }
}
