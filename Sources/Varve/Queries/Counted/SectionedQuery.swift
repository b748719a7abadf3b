internal import FutexLocks

/// The instances of a query in sections, one for each value of a field, as a list shows them. A counted index answers
/// it: the fields that the condition compares with one value each, then the field of the sections, then the order.
///
/// ```swift
/// let byAuthor = Index(\.author, \.title, counted: true)                           // in the format
///
/// let shelf = books.query.sorted(by: \.title).sectioned(by: \.author)
/// try database.read { tx in
///   for section in try shelf.sections(in: tx) { print(section.value, section.count) }
///   let first = try shelf.fetch(of: "Emma", at: 0..<20, in: tx)
///   let place = try shelf.place(of: id, in: tx)
/// }
/// ```
///
/// Sections are in the order of their values, with nil first, or in the opposite one, independent of the order of the
/// instances within them. The condition may restrict the field of the sections to ranges. A section without instances
/// does not exist: it has the count 0, and no identifiers.
///
/// Each method throws `.notIndexed` with the declaration that is missing, `.notReady` while the index is built,
/// `.notUnique`, `.queryTooComplex`, `.unknownExtension`, `.invalidArgument` for a query with a limit, and what reading
/// throws.
///
/// A value, equal to another of an equal query with the same field and direction. What does not depend on the
/// transaction is determined once for a value and its copies: keep it, and call it often. Safe from any thread.
public struct SectionedQuery<Format: StoreFormat, Section: KeyCodable>: Sendable {
  /// The query whose instances are divided.
  public let query: StoreQuery<Format>
  /// Whether the sections are in descending order of their values.
  public let isDescending: Bool
  let path: FieldPath
  private let cache = SectionAccessCache()

  init(_ query: StoreQuery<Format>, _ path: FieldPath, isDescending: Bool) {
    self.query = query
    self.path = path
    self.isDescending = isDescending
  }

  /// The store whose instances are divided.
  public var store: Store<Format> { query.store }
  /// The database.
  public var database: Database { query.store.database }
}

extension StoreQuery {
  /// Returns the instances in sections, one for each value of a field. Nothing is read before a method of the sections
  /// is called.
  public func sectioned<Section: KeyCodable>(
    by path: any KeyPath<Format.Instance, Section> & Sendable, descending: Bool = false
  ) -> SectionedQuery<Format, Section> {
    SectionedQuery(self, FieldPath(path: path), isDescending: descending)
  }

  /// Returns the instances in sections by a field in the syntax of conditions: `sectioned { $0.home.city }`, also if
  /// `home` is optional.
  public func sectioned<Section: KeyCodable>(
    descending: Bool = false, by field: (Fields<Format.Instance>) -> Field<Format.Instance, Section>
  ) -> SectionedQuery<Format, Section> {
    SectionedQuery(self, field(Fields()).fieldPath, isDescending: descending)
  }
}

extension SectionedQuery: Hashable {
  /// Returns whether both have equal queries, and the same sections in the same order.
  public static func == (left: SectionedQuery, right: SectionedQuery) -> Bool {
    left.query == right.query && left.path == right.path && left.isDescending == right.isDescending
  }

  /// Hashes the query, the field and the direction.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(query)
    hasher.combine(path)
    hasher.combine(isDescending)
  }
}

// MARK: - Running

extension SectionedQuery {
  /// A sectioned query in one transaction.
  struct Run {
    let run: CountedRun<Format>
    let access: SectionAccess
    let path: FieldPath

    /// Returns the entries of a section, which are none if the condition excludes it. Throws `.invalidKey`.
    func range(of section: Section) throws -> StorageRange? {
      let section = path.fitted(section)
      var encoder = KeyEncoder(capacity: 32)
      try access.isDescending ? encoder.encode(descending: section) : encoder.encode(section)
      let range = access.section(encoder.bytes)
      return access.ranges.contains { $0.holds(range.lower) } ? range : nil
    }

    /// Returns the section of an entry, and the entries of the section. Throws `.corruption`.
    func section(ofEntry key: RawSpan) throws -> (value: Section, range: StorageRange) {
      let end = try IndexEntry.rowKey(in: key).lowerBound
      guard access.fixed.count <= end else { throw IndexEntry.damaged(key) }
      let rest = key.extracting(access.fixed.count..<end)
      var decoder = KeyDecoder(rest)
      let value: Section = try access.isDescending ? decoder.decode(descending: Section.self) : decoder.decode()
      return (value, access.section(rest.extracting(0..<decoder.offset).copied))
    }

    /// Returns the entry of an instance, or nil if the condition excludes it.
    func entry(of id: Format.Identifier) throws -> [UInt8]? { try run.entry(of: id, in: access.ranges) }
  }

  /// Returns the sections in a transaction, or nil if there are none, because the collection does not exist or no
  /// instance can fulfil the condition.
  func opened(_ tx: ReadTransaction) throws -> Run? {
    if let limit = query.maximum {
      throw DatabaseError(
        .invalidArgument, "a query that is sectioned has a limit of \(limit); name offsets of a section instead",
        collection: store.collection)
    }
    let plan = try query.counted.plan(of: query)
    if plan.isEmpty { return nil }
    let accesses = try cache.accesses(of: plan, path)
    let run = try CountedRun(store, anyOf: accesses.lazy.map(\.slot), tx) { plan.refusal(of: path) }
    guard let run, let access = accesses.first(where: { $0.slot == run.slot }) else { return nil }
    return Run(run: run, access: access, path: path)
  }
}

/// The accesses of a sectioned query, which are determined at the first use and shared by its copies.
private final class SectionAccessCache: Sendable {
  private let accesses = FutexLock<[SectionAccess]?>(nil)

  func accesses<Format>(of plan: CountedPlan<Format>, _ path: FieldPath) throws -> [SectionAccess] {
    if let known = accesses.withLock({ $0 }) { return known }
    let made = try plan.sections(by: path)
    accesses.withLock { $0 = made }
    return made
  }
}
