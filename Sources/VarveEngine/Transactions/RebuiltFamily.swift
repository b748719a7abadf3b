/// A family's entries that count, now or at a savepoint, copied into a new tree, each with its number.
struct RebuiltFamily {
  private(set) var family: PendingFamily
  /// The changes by folding in the size of the entries that count at the end of each section (`LiveEntries`).
  ///
  /// Empty if there is no change.
  private(set) var changes: [PendingSize] = []
  /// The size of the entries.
  private(set) var stored = PendingSize()
  /// The numbers of the copied entries that get the commit's sequence.
  private(set) var stamped: Set<UInt64> = []

  /// Copies the family of `entries` into a tree with at least `capacity` and room for one more entry of these sizes.
  ///
  /// Throws `.noMemory`, and `.limitExceeded` for a tree that is too large for a memtable.
  init(
    _ entries: LiveEntries, capacity: Int, keySize: Int = 0, valueSize: Int = 0, pool: ArenaPool
  ) throws(EngineError) {
    family = entries.family
    var capacity = capacity
    repeat {
      family.table = try Self.makeTable(capacity: capacity, pool: pool)
      family.foldableCost = 0
      capacity *= 2
    } while try !fill(entries) || !family.table.hasRoom(keySize: keySize, valueSize: valueSize)
  }

  /// The capacity of the smallest tree. The other sizes for which the engine keeps arenas are 4, 16 and 64 times this.
  private static let capacityMinimum = 32 << 10
  static let pooledCapacityMaximum = 64 * capacityMinimum

  static func makeTable(capacity: Int, pool: ArenaPool) throws(EngineError) -> MemTable {
    guard capacity <= pooledCapacityMaximum else { return try MemTable(reserving: capacity) }
    var size = capacityMinimum
    while size < capacity { size *= 4 }
    return try MemTable(reserving: size, pool: pool)
  }

  /// Copies the entries. Returns false if the tree has no room for all of them.
  private mutating func fill(_ entries: LiveEntries) throws(EngineError) -> Bool {
    let old = entries.family.table
    let table = family.table
    let id = family.id
    var stored = PendingSize()
    var stamped: Set<UInt64> = []
    // Range deletes are inserted before the entries, because the memtable does not check which entries came after them.
    var ranges: [(lower: ByteView, upper: ByteView, sequence: SequenceNumber)] = []
    old.rangeTombstones.forEachTombstone(above: .zero) { ranges.append(($0, $1, $2)) }
    for range in ranges.reversed() {
      table.insert(range.lower, Trailer(range.sequence, .rangeDelete), range.upper)
      stored.add(
        BatchFormat.entrySize(.rangeDelete, id, keySize: range.lower.count, valueSize: range.upper.count))
    }
    table.rangeTombstones.beginOlderWrites()
    var hasRoom = true
    changes = try entries.forEach { (number, kind, key, value) in
      hasRoom = hasRoom && table.hasRoom(keySize: key.count, valueSize: value.count)
      guard hasRoom else { return }
      table.insert(key, Trailer(.pending(number), kind), value)
      stored.add(BatchFormat.entrySize(kind, id, keySize: key.count, valueSize: value.count))
      if entries.stamps.location(of: number) != nil { stamped.insert(number) }
    }
    self.stored = stored
    self.stamped = stamped
    return hasRoom
  }
}
