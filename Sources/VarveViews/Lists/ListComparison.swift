@_spi(Extensions) internal import Varve

/// The comparison of two pictures of a list, given the places of the elements that may have changed.
///
/// # Algorithm
/// The unchanged elements of a group keep their order, so a part of them that both pictures show is known by two
/// numbers. A changed element keeps its place if it is between the same unchanged ones; of several between the same
/// ones, as many as possible do (`ListDifference.longestIncreasing`). Cost: O(c log c) for c changes, plus the rows
/// that enter and leave at the edges of ranges. Nothing is read.
struct ListComparison<Group: Hashable & Sendable> {
  let old: ListPicture<Group>
  let new: ListPicture<Group>
  let groups: [Group: ListGroupChange]
  let configuration: ListSections<Group>
  private let changed: [ListPlaceChange<Group>]
  private var changes: ListChanges<Group>
  /// The groups in sections that stay, in the old and in the new picture.
  private var staysOld: Set<Group> = []
  private var staysNew: Set<Group> = []

  /// The number of rows at the edges of ranges beyond which the list is shown again.
  static var edgeMaximum: Int { 10_000 }

  /// Compares two pictures. Returns a reload if they can't be compared: only one shows all groups as one section, or
  /// shows a group backwards, or the places contradict each other.
  static func changes(
    _ old: ListPicture<Group>, _ new: ListPicture<Group>, _ groups: [Group: ListGroupChange],
    _ changed: [ListPlaceChange<Group>], _ configuration: ListSections<Group>, _ empty: ListChanges<Group>
  ) -> ListChanges<Group> {
    var comparison = ListComparison(
      old: old, new: new, groups: groups, configuration: configuration, changed: changed, changes: empty)
    guard old.isConsolidated == new.isConsolidated, comparison.compare() else {
      return .reload(from: empty.from, to: empty.to)
    }
    comparison.changes.sort()
    return comparison.changes
  }

  private init(
    old: ListPicture<Group>, new: ListPicture<Group>, groups: [Group: ListGroupChange],
    configuration: ListSections<Group>, changed: [ListPlaceChange<Group>], changes: ListChanges<Group>
  ) {
    (self.old, self.new, self.groups, self.configuration) = (old, new, groups, configuration)
    (self.changed, self.changes) = (changed, changes)
  }

  private func change(_ group: Group) -> ListGroupChange {
    if let known = groups[group] { return known }
    let count = old.slot(of: group)?.count ?? new.slot(of: group)?.count ?? 0
    return ListGroupChange(oldCount: count, newCount: count)
  }

  private mutating func compare() -> Bool {
    let both = Set(old.slotNumbers.keys).intersection(new.slotNumbers.keys)
    for group in both {
      let change = change(group)
      guard change.isConsistent, old.slot(of: group)?.count == change.oldCount,
        new.slot(of: group)?.count == change.newCount,
        old.slot(of: group)?.isReversed == new.slot(of: group)?.isReversed
      else { return false }
    }
    compareSections()
    for slot in old.slots where staysOld.contains(slot.group) {
      if let other = new.slot(of: slot.group), staysNew.contains(slot.group), !isMoved(slot.group) {
        guard compare(slot, other, change(slot.group)) else { return false }
      } else {
        guard slot.range.count <= Self.edgeMaximum else { return false }
        for offset in slot.range { leave(slot, offset, groups[slot.group]?.changedOld(at: offset)) }
      }
    }
    for slot in new.slots where staysNew.contains(slot.group) {
      if staysOld.contains(slot.group), !isMoved(slot.group) { continue }
      guard slot.range.count <= Self.edgeMaximum else { return false }
      for offset in slot.range { arrive(slot, offset, groups[slot.group]?.changedNew(at: offset)) }
    }
    return true
  }

  /// Reports a row that does not keep its place, unless it is moved to another place, where it is reported.
  private mutating func leave(_ slot: ListPicture<Group>.Slot, _ offset: Int, _ number: Int?) {
    if let number, let new = changed[number].new, staysNew.contains(new.group),
      self.new.index(of: new.offset, in: new.group) != nil
    {
      return
    }
    changes.deletions.append(slot.index(of: offset))
  }

  /// Reports a row that has no place to keep.
  private mutating func arrive(_ slot: ListPicture<Group>.Slot, _ offset: Int, _ number: Int?) {
    let place = slot.index(of: offset)
    if let number, let old = changed[number].old, staysOld.contains(old.group),
      let from = self.old.index(of: old.offset, in: old.group)
    {
      changes.moves.append(.init(from: from, to: place, flags: changed[number].flags))
    } else {
      changes.insertions.append(place)
    }
  }

  // MARK: - Sections

  /// The groups whose parts of the one section have another order.
  private var movedGroups: Set<Group> = []
  private func isMoved(_ group: Group) -> Bool { movedGroups.contains(group) }

  private mutating func compareSections() {
    let difference = ListDifference(from: old.slots.map(\.group), to: new.slots.map(\.group)) { _ in true }
    if old.isConsolidated {
      (staysOld, staysNew) = (Set(old.slotNumbers.keys), Set(new.slotNumbers.keys))
      movedGroups = Set(difference.removals.map { old.slots[$0].group }).intersection(staysNew)
      return
    }
    let (gone, come) = (Set(difference.removals), Set(difference.insertions))
    changes.sectionDeletions = difference.removals
    changes.sectionInsertions = difference.insertions.map { .init(index: $0, group: new.slots[$0].group) }
    staysOld = Set(old.slots.indices.filter { !gone.contains($0) }.map { old.slots[$0].group })
    staysNew = Set(new.slots.indices.filter { !come.contains($0) }.map { new.slots[$0].group })
  }

  // MARK: - Rows

  private mutating func compare(
    _ slot: ListPicture<Group>.Slot, _ other: ListPicture<Group>.Slot, _ change: ListGroupChange
  ) -> Bool {
    let before = change.oldRank(slot.range.lowerBound)..<change.oldRank(slot.range.upperBound)
    let now = change.newRank(other.range.lowerBound)..<change.newRank(other.range.upperBound)
    let common = before.clamped(to: now)
    let gone = Self.subtract(common, from: before)
    let come = Self.subtract(common, from: now)
    guard gone.reduce(0, { $0 + $1.count }) <= Self.edgeMaximum, come.reduce(0, { $0 + $1.count }) <= Self.edgeMaximum
    else { return false }
    for ranks in gone { changes.deletions += ranks.map { slot.index(of: change.oldOffset($0)) } }
    for ranks in come { changes.insertions += ranks.map { other.index(of: change.newOffset($0)) } }

    var neighbors = Neighbors()
    for ranks in gone { neighbors.left += ranks.map { change.oldOffset($0) } }
    for ranks in come { neighbors.came += ranks.map { change.newOffset($0) } }

    // The changed elements that both pictures show here, by the number of common unchanged elements before them.
    let kept = keptPlaces(slot, other, change, common)
    for entry in change.old where slot.range.contains(entry.offset) {
      if kept[entry.number] != nil { continue }
      neighbors.left.append(entry.offset)
      leave(slot, entry.offset, entry.number)
    }
    for entry in change.new where other.range.contains(entry.offset) {
      if let old = kept[entry.number] {
        let flags = changed[entry.number].flags
        if !flags.isEmpty { neighbors.came.append(entry.offset) }
        neighbors.updates.append((slot.index(of: old), other.index(of: entry.offset), entry.offset, flags))
        continue
      }
      neighbors.came.append(entry.offset)
      arrive(other, entry.offset, entry.number)
    }
    addUpdates(neighbors, slot, other, change, common)
    return true
  }

  /// Returns the old offsets of the changed elements that keep their places, by their numbers.
  private func keptPlaces(
    _ slot: ListPicture<Group>.Slot, _ other: ListPicture<Group>.Slot, _ change: ListGroupChange, _ common: Range<Int>
  ) -> [Int: Int] {
    func segment(_ rank: Int) -> Int { min(max(rank, common.lowerBound), common.upperBound) }
    var oldOffsets: [Int: Int] = [:]
    for entry in change.old where slot.range.contains(entry.offset) { oldOffsets[entry.number] = entry.offset }
    var kept: [Int: Int] = [:]
    var candidates: [(old: Int, new: Int)] = []
    var last: Int?
    func end() {
      for position in ListDifference.longestIncreasing(candidates) {
        let number = change.new[position].number
        kept[number] = oldOffsets[number]
      }
      candidates.removeAll(keepingCapacity: true)
    }
    for (position, entry) in change.new.enumerated() where other.range.contains(entry.offset) {
      guard let offset = oldOffsets[entry.number] else { continue }
      let here = segment(change.newRank(entry.offset))
      guard segment(change.oldRank(offset)) == here else { continue }
      if here != last { end() }
      last = here
      candidates.append((offset, position))
    }
    end()
    return kept
  }

  private static func subtract(_ common: Range<Int>, from ranks: Range<Int>) -> [Range<Int>] {
    if common.isEmpty { return [ranks] }
    return [ranks.lowerBound..<common.lowerBound, common.upperBound..<ranks.upperBound]
  }

  // MARK: - Neighbors

  private struct Neighbors {
    /// The old offsets of the rows that have gone or moved away.
    var left: [Int] = []
    /// The new offsets of the rows that have come, moved or changed.
    var came: [Int] = []
    /// The changed rows that keep their places.
    var updates: [(old: ListIndex, new: ListIndex, offset: Int, flags: ListFlags)] = []
  }

  /// Reports the updated rows, and the unchanged rows whose neighbors have changed.
  private mutating func addUpdates(
    _ neighbors: Neighbors, _ slot: ListPicture<Group>.Slot, _ other: ListPicture<Group>.Slot,
    _ change: ListGroupChange, _ common: Range<Int>
  ) {
    let distances = configuration.neighbors(of: slot.group)
    /// The new offsets of the rows that depend on a changed one.
    var dependent: Set<Int> = []
    for distance in distances {
      for offset in neighbors.left {
        let (target, overflow) = offset.addingReportingOverflow(slot.isReversed ? 0 - distance : distance)
        guard !overflow, slot.range.contains(target), change.changedOld(at: target) == nil else { continue }
        let rank = change.oldRank(target)
        if common.contains(rank) { dependent.insert(change.newOffset(rank)) }
      }
      for offset in neighbors.came {
        let (target, overflow) = offset.addingReportingOverflow(other.isReversed ? 0 - distance : distance)
        if !overflow, other.range.contains(target) { dependent.insert(target) }
      }
    }
    for var update in neighbors.updates {
      if dependent.remove(update.offset) != nil { update.flags.insert(.dependency) }
      if !update.flags.isEmpty { changes.updates.append(.init(old: update.old, new: update.new, flags: update.flags)) }
    }
    for offset in dependent where change.changedNew(at: offset) == nil {
      let rank = change.newRank(offset)
      guard common.contains(rank) else { continue }
      changes.updates.append(
        .init(old: slot.index(of: change.oldOffset(rank)), new: other.index(of: offset), flags: .dependency))
    }
  }
}
