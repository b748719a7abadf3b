public import Varve

/// The mapping of groups of a source to the sections and rows of a list, at one snapshot, and its changes from snapshot
/// to snapshot.
///
/// ```swift
/// let connection = database.connection()
/// var mapping = ListMapping(source)
/// var changes = try mapping.advance(with: connection)      // a reload
/// changes = try mapping.advance(with: connection)          // what the commits since then have changed
/// ```
///
/// A mapping holds its snapshot, so what is read through it is what its places refer to, whatever is committed
/// meanwhile. Changes are net differences of two snapshots: a row that changed in three commits is reported once. They
/// are exact as far as change sets are kept and the feed reaches. Beyond that, after a collection was cleared, and when
/// another definition of the source is in force, they are a difference of all rows if the lists have at most 10,000,
/// and otherwise a reload; a switch between one section for all groups and a section for each is always a reload.
///
/// A value, safe to use from any thread. Complexity of a step: a lookup in each snapshot for each changed row, and
/// two offsets for each that is shown; nothing depends on the number of rows.
public struct ListMapping<Source: ListSource>: Sendable {
  /// The value that all rows of a section have in common.
  public typealias Group = Source.Group
  /// The identity of a row.
  public typealias ID = Source.ID

  /// The source of the rows.
  public let source: Source
  /// The snapshot whose rows are shown, or `nil` before the first step.
  public internal(set) var snapshot: HeldSnapshot?
  /// Whether there are more than 10,000 matches, of which only the first ones are shown.
  public var isCut: Bool { matches?.isCut ?? false }
  /// Whether the source was being built at the last step. The picture is then the one before.
  public internal(set) var isBuilding = false

  var configuration: ListSections<Group>
  var picture = ListPicture<Group>()
  var generation: UInt64?
  var condition: ListMatches<Source>.Condition?
  var matches: ListMatches<Source>?
  /// The commits since the snapshot for which the mapping could not move, or `nil` if there were too many.
  var waiting: [ChangeEvent]? = []
  /// The version up to which commits were passed to the mapping.
  var noted: CommitVersion?
  /// Whether other sections or another condition have been set since the last step.
  var isReconfigured = false
  /// The elements that may have changed at the last step, or `nil` if that is not known.
  var lastChanged: Set<ID>?

  /// The number of rows of a list up to which its difference is found by comparing all rows.
  static var comparedMaximum: Int { 10_000 }
  /// The number of commits that wait for a source that is being built.
  static var waitingMaximum: Int { 256 }

  /// Creates a mapping without rows. With a condition, only the elements that fulfil it are shown, at most 10,000:
  /// their identities are kept in memory, and each step reads the changed elements.
  public init(
    _ source: Source, sections: ListSections<Group> = .all,
    where keeps: (@Sendable (Source.Element) -> Bool)? = nil
  ) {
    self.source = source
    configuration = sections
    condition = keeps.map { .init(keeps: $0, isObsolete: { false }) }
  }

  /// A section.
  public struct Section: Hashable, Sendable {
    /// The group, or `nil` for the section of all groups.
    public let group: Group?
    /// The number of rows.
    public let count: Int
    /// The number of elements of the groups in the section, shown or not.
    public let groupCount: Int
    /// The offsets of the group that are shown, in the order of the source, or `nil` for the section of all groups.
    public let range: Range<Int>?
  }

  /// The sections. Complexity: linear.
  public var sections: [Section] { picture.sections.indices.map { section($0) } }

  func section(_ index: Int) -> Section {
    let slots = picture.slots[picture.sections[index]]
    return Section(
      group: picture.group(ofSection: index), count: picture.rowCount(ofSection: index),
      groupCount: slots.reduce(0) { $0 + $1.count }, range: picture.isConsolidated ? nil : slots.first?.range)
  }

  /// The number of sections.
  public var sectionCount: Int { picture.sections.count }
  /// The number of rows of all sections.
  public var count: Int { picture.rowCount }
  /// Whether there are no rows.
  public var isEmpty: Bool { picture.rowCount == 0 }
  /// Whether all groups are shown as one section.
  public var isConsolidated: Bool { picture.isConsolidated }
  /// The version of the snapshot whose rows are shown, or `nil` before the first step.
  public var version: CommitVersion? { snapshot?.version }

  /// Returns the number of the section that shows a group, or `nil` if none does.
  public func section(of group: Group) -> Int? { picture.slot(of: group)?.section }

  /// Returns the place of an element of a group by its offset in the source, or `nil` if it is not shown.
  public func index(of offset: Int, in group: Group) -> ListIndex? { picture.index(of: offset, in: group) }

  /// Returns the place of the shown row that is nearest to an offset of a group, or `nil` if none of the group is
  /// shown.
  public func nearestIndex(to offset: Int, in group: Group) -> ListIndex? {
    guard let slot = picture.slot(of: group), !slot.range.isEmpty else { return nil }
    return slot.index(of: min(max(offset, slot.range.lowerBound), slot.range.upperBound - 1))
  }

  /// Returns the group and the offset in the source of a row, or `nil` if there is no such row. With a condition, the
  /// offset counts the matches.
  public func place(at index: ListIndex) -> (group: Group, offset: Int)? {
    guard picture.contains(index) else { return nil }
    let flat = picture.flat(index)
    return picture.parts(flat..<(flat + 1)).first.map { ($0.slot.group, $0.offsets.lowerBound) }
  }
}
