/// The pending compaction work of all families, which is the input of the write controller after each freeze, flush and
/// compaction.
///
/// It is updated family by family. With ten thousand families, a sum over all of them would make the cost of every
/// flush grow with the number of families.
struct CompactionDebt: Sendable {
  private struct Share: Sendable {
    var bytes: UInt64
    var depth: Int
    /// The bytes of all tables.
    var size: UInt64
  }

  private var shares: [FamilyID: Share] = [:]
  /// The number of families with each depth of level 0.
  private var depths: [Int] = []
  /// Families whose tables changed since the last refresh.
  private var changed: Set<FamilyID> = []
  /// The compaction bytes that are due.
  private(set) var bytes: UInt64 = 0
  /// The bytes of all tables.
  private(set) var size: UInt64 = 0

  /// The deepest level 0 of any family.
  var depth: Int { max(depths.count - 1, 0) }

  /// Notes that the tables of families changed, or that the families were dropped.
  mutating func note(_ families: some Sequence<FamilyID>) { changed.formUnion(families) }

  /// Updates the changed families.
  ///
  /// `version` returns a family's version, or `nil` if it was dropped. Tables that can't be compacted because of
  /// `suspects` count neither as bytes nor as depth.
  mutating func refresh(
    _ picker: LeveledCompactionPicker, suspects: SuspectTables, version: (FamilyID) -> Version?
  ) {
    for id in changed {
      let version = version(id)
      let suspects = suspects.of(id)
      let share = version.flatMap { version in
        version.isEmpty
          ? nil
          : Share(
            bytes: picker.debtBytes(version, suspects: suspects),
            depth: picker.depth(version, StuckTables(version, suspects)), size: version.totalSize)
      }
      if let old = shares[id] { remove(old) }
      if let share { add(share) }
      shares[id] = share
    }
    changed.removeAll()
  }

  private mutating func add(_ share: Share) {
    bytes += share.bytes
    size += share.size
    while depths.count <= share.depth { depths.append(0) }
    depths[share.depth] += 1
  }

  private mutating func remove(_ share: Share) {
    bytes -= share.bytes
    size -= share.size
    depths[share.depth] -= 1
    while depths.last == 0 { depths.removeLast() }
  }
}
