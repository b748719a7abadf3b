/// What a list shows at one moment: which offsets of which groups are in which sections.
struct ListPicture<Group: Hashable & Sendable>: Sendable {
  /// The shown part of one group.
  struct Slot: Sendable {
    let group: Group
    /// The number of elements of the group.
    let count: Int
    /// The offsets that are shown.
    let range: Range<Int>
    let isReversed: Bool
    let section: Int
    /// The row of the section with which the slot begins.
    let base: Int

    /// Returns the place of an offset of the group, which is in the range.
    func index(of offset: Int) -> ListIndex {
      let row = isReversed ? range.upperBound - 1 - offset : offset - range.lowerBound
      return ListIndex(section: section, offset: base + row)
    }

    /// Returns the offset of a row of the slot, counted from its first one.
    func offset(ofRow row: Int) -> Int { isReversed ? range.upperBound - 1 - row : range.lowerBound + row }
  }

  fileprivate(set) var slots: [Slot] = []
  private(set) var slotNumbers: [Group: Int] = [:]
  /// The slots of each section.
  private(set) var sections: [Range<Int>] = []
  /// The number of rows before each section, and of all rows at the end.
  private(set) var starts: [Int] = [0]
  let isConsolidated: Bool

  init(isConsolidated: Bool = false) { self.isConsolidated = isConsolidated }

  /// Creates the picture of groups. `range` gives the shown offsets of a group of some elements.
  init(
    _ groups: [(group: Group, count: Int)], _ configuration: ListSections<Group>,
    _ range: (_ group: Group, _ count: Int) -> Range<Int>
  ) {
    // No count can be so large that the sum overflows, but a source that is wrong must not stop the program.
    let total = groups.reduce(0) { $0.addingReportingOverflow($1.count).overflow ? .max : $0 + $1.count }
    isConsolidated = total < configuration.threshold
    var base = 0
    for (group, count) in groups {
      if !isConsolidated { base = 0 }
      let range = range(group, count)
      let slot = Slot(
        group: group, count: count, range: range, isReversed: configuration.isReversed(group),
        section: isConsolidated ? 0 : slots.count, base: base)
      slotNumbers[group] = slots.count
      slots.append(slot)
      base += range.count
      if !isConsolidated {
        sections.append((slots.count - 1)..<slots.count)
        starts.append(starts[starts.count - 1] + range.count)
      }
    }
    if isConsolidated {
      sections = [0..<slots.count]
      starts = [0, base]
    }
  }

  /// The number of rows.
  var rowCount: Int { starts[starts.count - 1] }

  func slot(of group: Group) -> Slot? { slotNumbers[group].map { slots[$0] } }

  /// Returns the group of a section, or `nil` for the section of all groups.
  func group(ofSection section: Int) -> Group? { isConsolidated ? nil : slots[sections[section].lowerBound].group }

  /// Returns the number of rows of a section.
  func rowCount(ofSection section: Int) -> Int { starts[section + 1] - starts[section] }

  /// Returns the place of an element, or `nil` if it is not shown.
  func index(of offset: Int, in group: Group) -> ListIndex? {
    guard let slot = slot(of: group), slot.range.contains(offset) else { return nil }
    return slot.index(of: offset)
  }

  /// Returns the number of rows before a place, which exists.
  func flat(_ index: ListIndex) -> Int { starts[index.section] + index.offset }

  /// Returns whether there is a row at a place.
  func contains(_ index: ListIndex) -> Bool {
    sections.indices.contains(index.section) && index.offset >= 0
      && index.offset < rowCount(ofSection: index.section)
  }

  /// Returns the place of the row that has `flat` rows before it, which exists.
  func index(atFlat flat: Int) -> ListIndex {
    var (low, high) = (0, sections.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if starts[middle] <= flat { low = middle } else { high = middle }
    }
    // Of several sections that begin there, all but the last one are empty.
    return ListIndex(section: low, offset: flat - starts[low])
  }

  /// Returns the parts of groups that are shown in a range of rows, in order: offsets of the group, and whether they
  /// are shown in descending order.
  func parts(_ rows: Range<Int>) -> [(section: Int, slot: Slot, offsets: Range<Int>)] {
    let rows = rows.clamped(to: 0..<rowCount)
    guard !rows.isEmpty else { return [] }
    var parts: [(Int, Slot, Range<Int>)] = []
    var section = index(atFlat: rows.lowerBound).section
    while section < sections.count, starts[section] < rows.upperBound {
      for slot in slots[sections[section]] where !slot.range.isEmpty {
        let first = starts[section] + slot.base
        let shown = rows.clamped(to: first..<(first + slot.range.count))
        guard !shown.isEmpty else { continue }
        let ends = [slot.offset(ofRow: shown.lowerBound - first), slot.offset(ofRow: shown.upperBound - 1 - first)]
        parts.append((section, slot, min(ends[0], ends[1])..<(max(ends[0], ends[1]) + 1)))
      }
      section += 1
    }
    return parts
  }
}

extension ListPicture {
  /// The picture without the elements that ranges hide: each group has only the elements that are shown.
  var withoutHidden: ListPicture {
    var picture = self
    picture.slots = slots.map { slot in
      Slot(
        group: slot.group, count: slot.range.count, range: 0..<slot.range.count, isReversed: slot.isReversed,
        section: slot.section, base: slot.base)
    }
    return picture
  }
}

extension ListPicture {
  /// Returns the number of rows before the row that is nearest to a place, which need not exist.
  func nearestFlat(_ index: ListIndex) -> Int {
    guard rowCount > 0, index.section >= 0 else { return 0 }
    guard index.section < sections.count else { return rowCount - 1 }
    let offset = min(max(0, index.offset), max(0, rowCount(ofSection: index.section) - 1))
    return min(starts[index.section] + offset, rowCount - 1)
  }
}
