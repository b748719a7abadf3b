@_spi(Extensions) public import Varve

/// An extension for edges between rows, with rules that are applied when one end is removed.
///
/// ```swift
/// extension Database { static let graph = Relationships().named("graph") }
///
/// let database = try Database.open(at: path) {
///   Player.self
///   Avatar.self
///   Database.graph
/// }
/// try database.write { tx in
///   try player.persist(in: tx)                  // a `RelationshipNode`: declares its edges
///   try avatar.persist(in: tx)
///   try player.delete(in: tx)
/// }                                             // the avatar is gone, too
/// let owners = try database.read { tx in try tx[Database.graph].edges(EdgeQuery("avatar", to: avatar.rowKey)) }
/// ```
///
/// # When rules are applied
/// Rules are applied at the end of the transaction, or when it calls `flush()`. They consider the differences at that
/// time, not rows that were removed and set again in between. A row that was removed and set again counts as updated.
///
/// # Which edges exist
/// An edge exists if both of its ends do. A row that declares an edge to a row that does not exist has a *dangling*
/// edge: it has no effect and is not counted until that row exists. So the graph depends on the rows, and not on the
/// order in which they were saved.
///
/// # Domains
/// A program may have several domains, each registered under its own name: a row's edges specify their domain
/// (``RelationshipEdge/inDomain(_:)``). Counting and dangling are limited to a domain; each domain receives every
/// removal of a row.
///
/// This is a value: safe from any thread.
public struct Relationships: DatabaseExtension {
  /// The state of the extension in a transaction.
  public typealias Transaction = RelationshipsTransaction
  /// The locations of files, and the worker that removes them.
  @_spi(Extensions) public typealias Shared = RelationshipsShared
  /// The number of files that a commit releases for removal.
  @_spi(Extensions) public typealias Delta = Int
  /// The edges that a commit adds, removes and changes.
  public typealias Changes = EdgeChanges
  /// The kind of the extension, "varve.relationships".
  public static let kind = "varve.relationships"

  /// The edges that keep an end which is removed together with the last of them.
  public enum Counting: Hashable, Sendable {
    /// Edges of every name, as in YapDatabase. A photo that has lost its edges of one name is kept by those of another.
    case allNames
    /// Edges of the same name, as the documentation of YapDatabase states.
    case sameName
  }

  /// The domain of the edges, or nil for edges without a domain.
  public let domain: String?
  /// The version of `relationshipEdges()` in the program's types. After a change of the version, the edges of all rows
  /// are collected again. Edges that were added by hand are kept.
  public let version: String
  /// The edges that count for rules about all sources or all destinations.
  public let counting: Counting

  /// Whether rows that are only kept by each other are removed when one of them loses an edge that owns it. This reads
  /// the edges that lead to such a row; at most 100,000 rows are visited per transaction, and the rest is left to
  /// `collectCycles()`.
  public let collectsCycles: Bool
  /// The directories that contain the files of edges.
  public let roots: [FileRoot]
  /// Whether edges may lead to files by absolute paths.
  public let allowsFilesAnywhere: Bool
  /// A closure that is called with the outcome for each file that was to be removed, on a thread of the database, or
  /// nil to log warnings.
  public let reported: (@Sendable (FileReport) -> Void)?

  /// A closure that is called between the steps of removing files. Tests interrupt the removal there, as a crash would.
  var removalStep: (@Sendable (FileRemoval.Step) throws -> Void)?

  /// Creates a domain.
  public init(
    domain: String? = nil, version: String = "1", counting: Counting = .allNames, collectsCycles: Bool = false,
    roots: [FileRoot] = [], allowsFilesAnywhere: Bool = false, reported: (@Sendable (FileReport) -> Void)? = nil
  ) {
    self.domain = domain.map { ComposedText.of($0) }
    self.version = version
    self.counting = counting
    self.collectsCycles = collectsCycles
    self.roots = roots
    self.allowsFilesAnywhere = allowsFilesAnywhere
    self.reported = reported
  }

  /// The configuration. Delivery is immediate, so that edges of removed rows are hidden at once, and rules are applied
  /// at the end.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
    // Edges that were added by hand are independent of the version of the program's types.
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = [.inserts, .updates, .removals]
    configuration.delivery = .immediate
    configuration.flushChangesRows = true
    configuration.keepsState = true
    configuration.catchesUp = true
    configuration.parts = EdgeFamilies.partDefinitions(version: version)
    return configuration
  }

  /// Throws `.invalidDefinition` if two roots have the same name, or one has none; and if another registration has the
  /// same domain, or roots that contain the same files: one would remove files to which edges of the other lead.
  @_spi(Extensions) public func check(registered: [String: any DatabaseExtension]) throws {
    for (name, other) in registered {
      guard let other = other as? Relationships else { continue }
      try check(beside: other, named: name)
    }
    let names = roots.map(\.name)
    if names.contains("") { throw DatabaseError(.invalidDefinition, "a root of relationships has no name") }
    if let name = names.first(where: { name in names.count { $0 == name } > 1 }) {
      throw DatabaseError(.invalidDefinition, "two roots of relationships are named \"\(name)\"")
    }
  }

  private func check(beside other: Relationships, named name: String) throws {
    if other.domain == domain {
      throw DatabaseError(
        .invalidDefinition,
        "relationships are registered as \"\(name)\" with \(domain.map { "domain \"\($0)\"" } ?? "no domain") already; "
          + "a domain is registered once")
    }
    if allowsFilesAnywhere, other.allowsFilesAnywhere {
      throw DatabaseError(
        .invalidDefinition, "relationships registered as \"\(name)\" allow files anywhere, too; one domain may")
    }
    for (root, path) in roots.compactMap({ root in root.resolved().map { (root, $0 + "/") } }) {
      for (inner, innerPath) in other.roots.compactMap({ root in root.resolved().map { (root, $0 + "/") } })
      where path.hasPrefix(innerPath) || innerPath.hasPrefix(path) {
        throw DatabaseError(
          .invalidDefinition,
          "root \"\(root.name)\" has the files of root \"\(inner.name)\" of \"\(name)\": a file would go although edges of "
            + "another domain lead to it")
      }
    }
  }

  /// Resolves the locations of files, and removes the files that earlier opens have left to be removed.
  @_spi(Extensions) public func makeShared(_ view: borrowing SharedView) throws -> RelationshipsShared {
    let shared = try RelationshipsShared(self, view)
    shared.collectStale()
    shared.removeFiles()
    return shared
  }

  /// Removes the files that the commit releases.
  @_spi(Extensions) public func didAcknowledge(_ version: CommitVersion, _ delta: Int?, _ shared: RelationshipsShared) {
    if let delta, delta > 0 { shared.removeFiles() }
  }

  /// Returns the approximate memory size of the changes.
  @_spi(Extensions) public func byteCount(of changes: EdgeChanges) -> Int? {
    (changes.added.count + changes.removed.count + changes.changed.count + changes.dangling.count) * 400 + 100
  }

  /// Creates the state of the extension in a transaction.
  @_spi(Extensions) public func makeTransaction(_ context: ExtensionContext<Relationships>) throws
    -> RelationshipsTransaction
  {
    try RelationshipsTransaction(self, context)
  }
}
