/// The places of an element in two snapshots.
struct ListPlaceChange<Group: Hashable & Sendable> {
  struct Place {
    let group: Group
    let offset: Int
  }

  /// The place before, or `nil` if the element was in no group that could be shown.
  let old: Place?
  /// The place now, likewise.
  let new: Place?
  /// What has changed of the element; empty if only others around it may have.
  var flags: ListFlags
}

/// The changes of the elements of one group between two snapshots: where those were and are that may have changed. All
/// other elements have kept their order, so an offset in one snapshot gives the one in the other.
struct ListGroupChange {
  struct Entry {
    let offset: Int
    /// The number of the element among the changed ones.
    let number: Int
  }

  /// The numbers of elements of the group.
  let oldCount: Int
  let newCount: Int
  /// The changed elements that were in the group, in ascending order of their old offsets.
  private(set) var old: [Entry] = []
  /// The changed elements that are in the group, in ascending order of their new offsets.
  private(set) var new: [Entry] = []

  init(oldCount: Int, newCount: Int) {
    self.oldCount = oldCount
    self.newCount = newCount
  }

  mutating func addOld(_ offset: Int, _ number: Int) { old.append(Entry(offset: offset, number: number)) }
  mutating func addNew(_ offset: Int, _ number: Int) { new.append(Entry(offset: offset, number: number)) }

  mutating func sort() {
    old.sort { $0.offset < $1.offset }
    new.sort { $0.offset < $1.offset }
  }

  /// The number of elements that have not changed.
  var unchangedCount: Int { oldCount - old.count }

  /// Whether the places can be those of two snapshots that differ only in the changed elements.
  var isConsistent: Bool {
    oldCount - old.count == newCount - new.count && unchangedCount >= 0 && Self.areDistinct(old, below: oldCount)
      && Self.areDistinct(new, below: newCount)
  }

  private static func areDistinct(_ entries: [Entry], below count: Int) -> Bool {
    var last = -1
    for entry in entries {
      guard entry.offset > last, entry.offset < count else { return false }
      last = entry.offset
    }
    return true
  }

  // MARK: - Ranks

  /// Returns the number of unchanged elements before an offset in the old snapshot.
  func oldRank(_ offset: Int) -> Int { offset - Self.count(old, before: offset) }
  /// Returns the number of unchanged elements before an offset in the new snapshot.
  func newRank(_ offset: Int) -> Int { offset - Self.count(new, before: offset) }
  /// Returns the old offset of the unchanged element that has `rank` unchanged ones before it.
  func oldOffset(_ rank: Int) -> Int { Self.offset(rank, old) }
  /// Returns the new offset of the unchanged element that has `rank` unchanged ones before it.
  func newOffset(_ rank: Int) -> Int { Self.offset(rank, new) }

  /// Returns the changed element at an old offset, or `nil` if the element there has not changed.
  func changedOld(at offset: Int) -> Int? { Self.number(old, at: offset) }
  /// Returns the changed element at a new offset, or `nil` if the element there has not changed.
  func changedNew(at offset: Int) -> Int? { Self.number(new, at: offset) }

  private static func count(_ entries: [Entry], before offset: Int) -> Int {
    first(entries.count) { entries[$0].offset >= offset }
  }

  private static func number(_ entries: [Entry], at offset: Int) -> Int? {
    let found = count(entries, before: offset)
    return found < entries.count && entries[found].offset == offset ? entries[found].number : nil
  }

  private static func offset(_ rank: Int, _ entries: [Entry]) -> Int {
    // The offsets minus their numbers ascend.
    rank + first(entries.count) { entries[$0].offset - $0 > rank }
  }

  /// Returns the first number below `count` for which a condition holds that holds for all later ones, or `count`.
  private static func first(_ count: Int, where isPast: (Int) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if isPast(middle) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
