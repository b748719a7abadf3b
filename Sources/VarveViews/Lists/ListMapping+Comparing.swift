internal import Varve

/// Comparing all rows of two pictures, where it is not known which of them have changed.
extension ListMapping {
  /// Makes the picture of a snapshot again. Returns the difference of all rows if both pictures have few, and otherwise
  /// a reload. `flags` are what has changed of elements, or `nil` if any of them may have.
  mutating func compareAll(
    _ flags: [ID: ListFlags]?, _ old: HeldSnapshot?, _ empty: ListChanges<Group>, _ tx: ReadTransaction
  ) throws -> ListChanges<Group> {
    let before = picture
    // The old rows are read first: what shows them is replaced below.
    let oldIDs = try old.flatMap { try oldRows($0) }
    matches = try condition.map { condition in
      try ListMatches(source, try arranged(nil, tx), configuration, condition, tx)
    }
    let shown = try arranged(matches, tx)
    let next = try ListPicture(shown, configuration, ranges(shown, oldIDs, tx))
    picture = next
    guard let oldIDs, next.rowCount <= Self.comparedMaximum else { return .reload(from: empty.from, to: empty.to) }
    let newIDs = try rows(of: next, tx)

    var numbers: [ID: Int] = [:]
    var old: [ListPlaceChange<Group>.Place?] = []
    var new: [ListPlaceChange<Group>.Place?] = []
    func number(_ id: ID) -> Int {
      if let known = numbers[id] { return known }
      numbers[id] = old.count
      old.append(nil)
      new.append(nil)
      return old.count - 1
    }
    var groups: [Group: ListGroupChange] = [:]
    for group in Set(before.slotNumbers.keys).union(next.slotNumbers.keys) {
      groups[group] = ListGroupChange(oldCount: oldIDs[group]?.count ?? 0, newCount: newIDs[group]?.count ?? 0)
    }
    for (group, ids) in oldIDs {
      for (offset, id) in ids.enumerated() {
        let number = number(id)
        old[number] = .init(group: group, offset: offset)
        groups[group]?.addOld(offset, number)
      }
    }
    for (group, ids) in newIDs {
      for (offset, id) in ids.enumerated() {
        let number = number(id)
        new[number] = .init(group: group, offset: offset)
        groups[group]?.addNew(offset, number)
      }
    }
    var changed = zip(old, new).map { ListPlaceChange(old: $0, new: $1, flags: flags == nil ? .unknown : []) }
    for (id, flags) in flags ?? [:] {
      if let number = numbers[id] { changed[number].flags = flags }
    }
    return ListComparison.changes(
      before.withoutHidden, next.withoutHidden, groups, changed, configuration, empty)
  }

  /// Returns the identities of the rows of the present picture by group, or `nil` if they are too many or can't be
  /// read.
  private func oldRows(_ old: HeldSnapshot) throws -> [Group: [ID]]? {
    guard picture.rowCount <= Self.comparedMaximum else { return nil }
    do { return try old.read { tx in try rows(of: picture, tx) } } catch let error as CancellationError {
      throw error
    } catch { return nil }
  }

  private func rows(of picture: ListPicture<Group>, _ tx: ReadTransaction) throws -> [Group: [ID]] {
    var rows: [Group: [ID]] = [:]
    for slot in picture.slots {
      if let matches {
        let all = matches.ids[slot.group] ?? []
        rows[slot.group] = Array(all[slot.range.clamped(to: all.indices)])
      } else {
        rows[slot.group] = slot.range.isEmpty ? [] : try source.ids(in: slot.group, at: slot.range, tx)
      }
    }
    return rows
  }

  /// Returns the ranges of groups: flexible ones stay at the rows that are left of those that they have shown.
  private func ranges(
    _ shown: [(group: Group, count: Int)], _ oldIDs: [Group: [ID]]?, _ tx: ReadTransaction
  ) throws -> (Group, Int) -> Range<Int> {
    var anchored: [Group: Range<Int>] = [:]
    for (group, _) in shown {
      guard let range = configuration.range(of: group), !range.isFixed, let old = picture.slot(of: group),
        old.count > 0
      else { continue }
      let ids = oldIDs?[group] ?? []
      func offset(_ id: ID) throws -> Int? {
        if let matches { return matches.ids[group]?.firstIndex(of: id) }
        guard let place = try source.place(of: id, tx), place.group == group else { return nil }
        return place.offset
      }
      var (first, last): (Int?, Int?)
      for id in ids {
        first = try offset(id)
        if first != nil { break }
      }
      for id in ids.reversed() {
        last = try offset(id)
        if last != nil { break }
      }
      if let first, let last {
        anchored[group] = first..<(last >= first ? last + 1 : first + old.range.count)
      } else {
        anchored[group] = old.range
      }
    }
    return { [configuration] group, count in
      guard let range = configuration.range(of: group) else { return 0..<count }
      let isReversed = configuration.isReversed(group)
      guard let anchored = anchored[group] else { return range.initial(count, isReversed: isReversed) }
      return range.bounded(anchored, count, isReversed: isReversed)
    }
  }
}
