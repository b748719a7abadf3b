/// Ranges that follow their rows.
extension ListGroupChange {
  /// Where an element of the group was.
  private enum Origin {
    case inside
    /// In the group, but not in the range.
    case outside
    /// Not in the group.
    case elsewhere
  }

  /// The new offsets between two neighboring unchanged elements, all of which are those of changed elements.
  private func gap(at rank: Int) -> Range<Int> {
    let lower = rank == 0 ? 0 : newOffset(rank - 1) + 1
    return lower..<max(lower, rank >= unchangedCount ? newCount : newOffset(rank))
  }

  /// Returns the range of new offsets that shows the rows of a range of old offsets.
  ///
  /// The edges stay between the same rows. Elements that have come exactly at an edge are taken in if the range grows
  /// there.
  func followed(_ range: Range<Int>, growsLow: Bool, growsHigh: Bool) -> Range<Int> {
    var origins: [Int: Origin] = [:]
    for entry in old { origins[entry.number] = range.contains(entry.offset) ? .inside : .outside }
    func origin(_ offset: Int) -> Origin { changedNew(at: offset).flatMap { origins[$0] } ?? .elsewhere }

    let (first, last) = (oldRank(range.lowerBound), oldRank(range.upperBound))
    let (low, high) = (gap(at: first), gap(at: last))
    let lower = low.first { origin($0) == .inside } ?? (first < last ? low.upperBound : nil)
    let upper = high.last { origin($0) == .inside }.map { $0 + 1 } ?? (first < last ? high.lowerBound : nil)
    guard let lower, let upper, lower <= upper else {
      // None of the rows is left: the range stays between those that were around it.
      let before = old.filter { $0.offset < range.lowerBound }.map(\.number)
      let last = low.last { offset in changedNew(at: offset).map { before.contains($0) } ?? false }
      let start = last.map { $0 + 1 } ?? low.lowerBound
      if !growsLow, !growsHigh { return start..<start }
      return start..<((start..<low.upperBound).first { origin($0) == .outside } ?? low.upperBound)
    }
    var grown = (lower, upper)
    if growsLow, low.lowerBound < lower {
      grown.0 = (low.lowerBound..<lower).last { origin($0) == .outside }.map { $0 + 1 } ?? low.lowerBound
    }
    if growsHigh, upper < high.upperBound {
      grown.1 = (upper..<high.upperBound).first { origin($0) == .outside } ?? high.upperBound
    }
    return grown.0..<max(grown.0, grown.1)
  }
}
