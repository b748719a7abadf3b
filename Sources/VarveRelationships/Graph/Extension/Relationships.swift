public import Varve

/// Edges between rows, with rules for what happens when one end goes: an extension of a database.
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
/// At the end of the transaction, or where it calls `flush()`: to what is different then, and not to what came and went
/// again in between. A row that was removed and set again is a row that was updated.
///
/// # Which edges there are
/// An edge is there where both of its ends are. A row that declares an edge to a row which is not there has a *dangling* edge:
/// it fires nothing and counts for nothing until there is such a row. So the graph depends on the rows, and not on the order
/// in which they were saved.
///
/// # Domains
/// A program may have several, each registered under a name of its own: a row's edges say to which they belong
/// (``RelationshipEdge/inDomain(_:)``). Counting and dangling stay inside a domain; each receives every removal of a row.
///
/// A value: safe from any thread.
public struct Relationships: DatabaseExtension {
  /// What it does in a transaction.
  public typealias Transaction = RelationshipsTransaction
  /// Where files are, and who removes them.
  public typealias Shared = RelationshipsShared
  /// How many files a commit lets go.
  public typealias Delta = Int
  /// The edges that a commit adds, removes and changes.
  public typealias Changes = EdgeChanges
  /// "varve.relationships".
  public static let kind = "varve.relationships"

  /// Which edges keep an end that is to go with the last of them.
  public enum Counting: Hashable, Sendable {
    /// Those of every name: what YapDatabase does. A photo that one name of edges has lost is kept by those of another.
    case allNames
    /// Those of the same name: what its documentation says.
    case sameName
  }

  /// The domain whose edges it keeps; nil: those without one.
  public let domain: String?
  /// The version of `relationshipEdges()` in the program's types: another one collects the edges of all rows again. Edges that
  /// were added by hand stay.
  public let version: String
  /// Which edges count for rules that ask for all.
  public let counting: Counting

  /// Whether rows go that only keep each other, when one of them loses an edge that owns it. It costs a look at what leads to such a row; at
  /// most 100,000 rows are visited a transaction, and the rest is left to `collectCycles()`.
  public let collectsCycles: Bool
  /// The directories that edges lead into.
  public let roots: [FileRoot]
  /// Whether edges may lead to files by absolute paths.
  public let allowsFilesAnywhere: Bool
  /// Called with what became of each file that was to go, on a thread of the database; nil: warnings are logged.
  public let reported: (@Sendable (FileReport) -> Void)?

  /// Called between the steps of removing files: tests stop it there, as a crash does.
  var removalStep: (@Sendable (FileRemoval.Step) throws -> Void)?

  /// A domain.
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

  /// Immediate, so that edges of rows that are gone are hidden at once, and rules are applied at the end.
  public var configuration: ExtensionConfiguration {
    // What it keeps by hand belongs to no version of the program's types.
    var configuration = ExtensionConfiguration(version: "1")
    configuration.hears = [.inserts, .updates, .removals]
    configuration.delivery = .immediate
    configuration.flushChangesRows = true
    configuration.keepsState = true
    configuration.catchesUp = true
    configuration.parts = EdgeFamilies.partDefinitions(version: version)
    return configuration
  }

  /// Throws `.invalidDefinition` where two roots have one name, or one has none; where another registration has the same domain,
  /// or roots in which the same files are: one would remove what edges of the other lead to.
  public func check(registered: [String: any DatabaseExtension]) throws {
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

  /// Where files are, as of this open. Files that are to go since an earlier one are removed.
  public func makeShared(_ view: borrowing SharedView) throws -> RelationshipsShared {
    let shared = try RelationshipsShared(self, view)
    shared.collectStale()
    shared.removeFiles()
    return shared
  }

  /// Removes the files that the commit lets go.
  public func didAcknowledge(_ version: CommitVersion, _ delta: Int?, _ shared: RelationshipsShared) {
    if let delta, delta > 0 { shared.removeFiles() }
  }

  /// About as much memory as the edges take.
  public func byteCount(of changes: EdgeChanges) -> Int? {
    (changes.added.count + changes.removed.count + changes.changed.count + changes.dangling.count) * 400 + 100
  }

  /// Makes what belongs to a transaction.
  public func makeTransaction(_ context: ExtensionContext<Relationships>) throws -> RelationshipsTransaction {
    try RelationshipsTransaction(self, context)
  }
}
