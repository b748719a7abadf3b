/// Reads the sections. Each call sees the snapshot of its transaction and what the transaction has written.
extension SectionedQuery {
  // MARK: - Inside a transaction

  /// Returns the sections that have instances, in order, with their numbers of instances. Complexity: one seek and one
  /// count for each section.
  public func sections(in tx: ReadTransaction) throws -> [QueryGroup<Section>] {
    guard let opened = try opened(tx) else { return [] }
    let isReverse = isDescending != opened.access.isDescending
    var sections: [QueryGroup<Section>] = []
    for range in isReverse ? opened.access.ranges.reversed() : opened.access.ranges {
      var rest = range
      while let (value, section) = try opened.first(in: rest, isReverse: isReverse) {
        sections.append(QueryGroup(value: value, count: try opened.run.count([section])))
        if isReverse { rest.upper = section.lower } else { rest.lower = section.upper ?? rest.lower }
        if rest.isEmpty { break }
      }
    }
    return sections
  }

  /// Returns the number of instances of all sections. Complexity: O(log n).
  public func count(in tx: ReadTransaction) throws -> Int {
    guard let opened = try opened(tx) else { return 0 }
    return try opened.run.count(opened.access.ranges)
  }

  /// Returns the number of instances of a section. Complexity: O(log n).
  public func count(of section: Section, in tx: ReadTransaction) throws -> Int {
    guard let opened = try opened(tx), let range = try opened.range(of: section) else { return 0 }
    return try opened.run.count([range])
  }

  /// Returns the identifiers of the instances at some offsets of a section, in the order of the query. Offsets that the
  /// section does not have are left out. Complexity: O(log n), and a step for each identifier.
  public func ids(of section: Section, at offsets: Range<Int>, in tx: ReadTransaction) throws -> [Format.Identifier] {
    guard let opened = try opened(tx), let range = try opened.range(of: section) else { return [] }
    return try opened.run.ids(at: offsets.clamped(to: nil), in: range, isReverse: opened.access.isReverse)
  }

  /// Returns the instances at some offsets of a section, in the order of the query. Offsets that the section does not
  /// have are left out. Complexity: O(log n), and a read for each instance.
  public func fetch(of section: Section, at offsets: Range<Int>, in tx: ReadTransaction) throws -> [Format.Instance] {
    guard let opened = try opened(tx), let range = try opened.range(of: section) else { return [] }
    return try opened.run.instances(at: offsets.clamped(to: nil), in: range, isReverse: opened.access.isReverse)
  }

  /// Returns the section of an instance, and the number of instances that come before it in the section, or nil if it
  /// is in no section. Complexity: one lookup, and O(log n).
  public func place(
    of id: Format.Identifier, in tx: ReadTransaction
  ) throws -> (section: Section, offset: Int)? {
    guard let opened = try opened(tx), let entry = try opened.entry(of: id) else { return nil }
    let (value, range) = try unsafe opened.section(ofEntry: entry.span.bytes)
    return (value, try opened.run.offset(of: entry, in: range, isReverse: opened.access.isReverse))
  }

  /// Returns the section of an instance, or nil if it is in none. Complexity: one lookup; nothing is counted.
  public func section(of id: Format.Identifier, in tx: ReadTransaction) throws -> Section? {
    guard let opened = try opened(tx), let entry = try opened.entry(of: id) else { return nil }
    return try unsafe opened.section(ofEntry: entry.span.bytes).value
  }

  /// Returns an instance of the store, whether or not it is in a section, or nil if it does not exist. Complexity: one
  /// lookup.
  public func instance(_ id: Format.Identifier, in tx: ReadTransaction) throws -> Format.Instance? {
    try store.load(id, in: tx)
  }

  /// Returns an instance of the store for a list, or nil if it does not exist. Throws the error of a row that can't be
  /// decoded and has no stand-in, whatever the format says of such rows: a list shows a placeholder.
  @_spi(Extensions) public func shown(_ id: Format.Identifier, in tx: ReadTransaction) throws -> Format.Instance? {
    try store.access.shown(id, tx)
  }

  /// Returns the identifiers of the instances that a commit may have inserted, removed, moved or changed, or nil if
  /// that is not known because all rows of the collection were removed. Whether they are in a section is not looked up.
  public func changedIDs(by changes: ChangeSet) throws -> Set<Format.Identifier>? {
    let collection = store.collection
    if changes.isCleared(collection) { return nil }
    return try Set(changes.keys(in: collection).map { try $0.key() })
  }

  /// Returns a number that is another one after the index was built again, or nil while the index is built. It is
  /// the same at each commit otherwise, in one process.
  public func generation(in tx: ReadTransaction) throws -> UInt64? {
    do {
      guard let opened = try opened(tx) else { return 0 }
      return try opened.run.indexes.generation(of: opened.run.slot)
    } catch let error as DatabaseError where error.code == .notReady { return nil }
  }

  // MARK: - In a transaction of its own

  /// Returns the sections that have instances, in order, with their numbers of instances.
  public func sections() async throws -> [QueryGroup<Section>] {
    try await database.read { tx in try sections(in: tx) }
  }

  /// Returns the number of instances of all sections.
  public func count() async throws -> Int { try await database.read { tx in try count(in: tx) } }

  /// Returns the number of instances of a section.
  public func count(of section: Section) async throws -> Int {
    try await database.read { tx in try count(of: section, in: tx) }
  }

  /// Returns the identifiers of the instances at some offsets of a section, in the order of the query.
  public func ids(of section: Section, at offsets: Range<Int>) async throws -> [Format.Identifier] {
    try await database.read { tx in try ids(of: section, at: offsets, in: tx) }
  }

  /// Returns the instances at some offsets of a section, in the order of the query.
  public func fetch(of section: Section, at offsets: Range<Int>) async throws -> [Format.Instance] {
    try await database.read { tx in try fetch(of: section, at: offsets, in: tx) }
  }

  /// Returns the section of an instance, and the number of instances that come before it in the section, or nil if it
  /// is in no section.
  public func place(of id: Format.Identifier) async throws -> (section: Section, offset: Int)? {
    try await database.read { tx in try place(of: id, in: tx) }
  }
}

extension SectionedQuery.Run {
  /// Returns the first section of a range, or the last one, or nil if the range has no entries.
  fileprivate func first(
    in range: StorageRange, isReverse: Bool
  ) throws -> (value: Section, range: StorageRange)? {
    let part = run.indexes.part(run.slot)
    guard !isReverse else {
      var cursor = try part.cursor(range, isReverse: true, keysOnly: true)
      return try cursor.withNext { key, _ in try section(ofEntry: key) }
    }
    var found: (value: Section, range: StorageRange)?
    try part.forEach(in: range) { key, _ in
      found = try section(ofEntry: key)
      return false
    }
    return found
  }
}
