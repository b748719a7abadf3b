@_spi(Extensions) public import Varve

/// A query that is divided into sections by a counted index is the source of a list, without any view.
///
/// The groups are the sections, in the order of the query. An element is an instance, which its `id` identifies.
extension SectionedQuery: ListSource
where Format.Instance: Identifiable, Format.Instance.ID == Format.Identifier {
  /// The value that all instances of a section have in common.
  public typealias Group = Section
  /// What a list shows of one row: the instance.
  public typealias Element = Format.Instance

  /// Returns the sections that have instances, with the numbers of these.
  public func groups(in tx: ReadTransaction) throws -> [(group: Section, count: Int)] {
    try sections(in: tx).map { ($0.value, $0.count) }
  }

  /// Returns the number of instances of a section.
  public func count(in group: Section, _ tx: ReadTransaction) throws -> Int { try count(of: group, in: tx) }

  /// Returns the identifiers of the instances at a range of offsets of a section.
  public func ids(in group: Section, at offsets: Range<Int>, _ tx: ReadTransaction) throws -> [Format.Identifier] {
    try ids(of: group, at: offsets, in: tx)
  }

  /// Returns the section of an instance, or `nil` if it is in none.
  public func group(of id: Format.Identifier, _ tx: ReadTransaction) throws -> Section? {
    try section(of: id, in: tx)
  }

  /// Returns the section of an instance and its offset there, or `nil` if it is in none.
  public func place(
    of id: Format.Identifier, _ tx: ReadTransaction
  ) throws -> (group: Section, offset: Int)? {
    try place(of: id, in: tx).map { ($0.section, $0.offset) }
  }

  /// Returns an instance, or `nil` if there is none. Throws the error of a row that can't be decoded and has no
  /// stand-in, also if the format leaves out such rows: its place in the list is that of a placeholder.
  public func element(_ id: Format.Identifier, _ tx: ReadTransaction) throws -> Format.Instance? {
    try shown(id, in: tx)
  }

  /// Returns the identifiers of the instances that a commit has changed, each with what has changed, or `nil` if all
  /// rows of the collection were removed.
  public func changedIDs(by changes: ChangeSet, _ tx: ReadTransaction) throws -> [Format.Identifier: ListFlags]? {
    if changes.isEverythingCleared || changes.isCleared(store.collection) { return nil }
    var changed: [Format.Identifier: ListFlags] = [:]
    for row in changes.keys(in: store.collection) { changed[try row.key()] = ListFlags(row, in: changes) }
    return changed
  }

  /// Returns a number that is another one after the index was built again, or `nil` while it is built.
  public func generation(_ tx: ReadTransaction) throws -> UInt64? { try generation(in: tx) }
}
