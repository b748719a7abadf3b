/// Which groups a list shows as sections, in what order, and what it shows of each.
///
/// ```swift
/// let sections = ListSections.groups(["inbox", "later"])
///   .reversed(in: "later").range(.fixed(20), in: "inbox").consolidated(below: 10)
/// ```
///
/// A value: each method returns a changed copy.
public struct ListSections<Group: Hashable & Sendable>: Sendable {
  enum Choice: Sendable {
    case fixed([Group])
    case dynamic(
      isShown: (@Sendable (Group) -> Bool)?, precedes: (@Sendable (Group, Group) -> Bool)?)
  }

  let choice: Choice
  private var hidesEmpty = false
  private var hiddenIfEmpty: Set<Group> = []
  private var ranges: [Group: ListRange] = [:]
  private var defaultRange: ListRange?
  private var reversed: Set<Group> = []
  private var reversesAll = false
  private var distances: [Group: [Int]] = [:]
  private var defaultDistances: [Int] = []
  /// The number of elements below which all groups are shown as one section.
  private(set) var threshold = 0

  private init(_ choice: Choice) { self.choice = choice }

  /// All groups that have elements, in the order of the source.
  public static var all: ListSections { ListSections(.dynamic(isShown: nil, precedes: nil)) }

  /// Returns sections for certain groups in a certain order. A group without elements is an empty section, unless it is
  /// hidden (`hidingEmpty`). A group that is listed twice counts once.
  public static func groups(_ groups: [Group]) -> ListSections {
    var seen: Set<Group> = []
    return ListSections(.fixed(groups.filter { seen.insert($0).inserted }))
  }

  /// Returns sections for the groups that have elements and that a closure accepts, sorted by a second closure.
  ///
  /// The results of the closures must depend only on the groups. Without a second closure, the groups are in the order
  /// of the source; so are those of which neither precedes the other.
  public static func groups(
    where isShown: (@Sendable (Group) -> Bool)? = nil, by precedes: (@Sendable (Group, Group) -> Bool)? = nil
  ) -> ListSections {
    ListSections(.dynamic(isShown: isShown, precedes: precedes))
  }

  /// Returns sections of which empty ones are hidden: all, or that of one group.
  public func hidingEmpty(_ group: Group? = nil) -> ListSections {
    var changed = self
    if let group { changed.hiddenIfEmpty.insert(group) } else { changed.hidesEmpty = true }
    return changed
  }

  /// Returns sections that show a range of a group, or of each group that has no range of its own.
  public func range(_ range: ListRange, in group: Group? = nil) -> ListSections {
    var changed = self
    if let group { changed.ranges[group] = range } else { changed.defaultRange = range }
    return changed
  }

  /// Returns sections that show a group, or all groups, from the last element to the first.
  public func reversed(in group: Group? = nil) -> ListSections {
    var changed = self
    if let group { changed.reversed.insert(group) } else { changed.reversesAll = true }
    return changed
  }

  /// Returns sections in which a changed row also marks its neighbors at certain distances as updated, for rows whose
  /// look depends on them: -1 is the row before, 1 the one after. Applies to one group, or to each group that has no
  /// distances of its own.
  public func neighbors(_ distances: [Int], in group: Group? = nil) -> ListSections {
    var changed = self
    let distances = Set(distances).subtracting([0, .min]).sorted()
    if let group { changed.distances[group] = distances } else { changed.defaultDistances = distances }
    return changed
  }

  /// Returns sections that are shown as one, without a group, while the shown groups together have fewer than `count`
  /// elements.
  public func consolidated(below count: Int) -> ListSections {
    var changed = self
    changed.threshold = max(0, count)
    return changed
  }

  // MARK: - Inside

  /// Returns whether the elements of a group can be shown.
  func shows(_ group: Group) -> Bool {
    switch choice {
    case .fixed(let groups): groups.contains(group)
    case .dynamic(let isShown, _): isShown?(group) ?? true
    }
  }

  func isHiddenIfEmpty(_ group: Group) -> Bool {
    if case .dynamic = choice { return true }
    return hidesEmpty || hiddenIfEmpty.contains(group)
  }

  func range(of group: Group) -> ListRange? { ranges[group] ?? defaultRange }
  func isReversed(_ group: Group) -> Bool { reversesAll || reversed.contains(group) }
  func neighbors(of group: Group) -> [Int] { distances[group] ?? defaultDistances }

  /// Returns the shown groups in order, with their numbers of elements. `all` are the groups of the source.
  func arranged(_ all: [(group: Group, count: Int)]) -> [(group: Group, count: Int)] {
    switch choice {
    case .fixed(let groups):
      let counts = Dictionary(all.map { ($0.group, $0.count) }) { first, _ in first }
      return groups.map { ($0, counts[$0] ?? 0) }.filter { $0.1 > 0 || !isHiddenIfEmpty($0.0) }
    case .dynamic(let isShown, let precedes):
      let shown = all.filter { $0.count > 0 && isShown?($0.group) ?? true }
      guard let precedes else { return shown }
      return shown.enumerated().sorted { left, right in
        if precedes(left.element.group, right.element.group) { return true }
        if precedes(right.element.group, left.element.group) { return false }
        return left.offset < right.offset
      }.map(\.element)
    }
  }
}
