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
  /// The version of `relationshipEdges()` in the program's types: another one collects the edges of all rows anew. Edges that
  /// were added by hand stay.
  public let version: String
  /// Which edges count for rules that ask for all.
  public let counting: Counting

  /// A domain.
  public init(domain: String? = nil, version: String = "1", counting: Counting = .allNames) {
    self.domain = domain.map { ComposedText.of($0) }
    self.version = version
    self.counting = counting
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

  /// Makes what belongs to a transaction.
  public func makeTransaction(_ context: ExtensionContext<Relationships>) throws -> RelationshipsTransaction {
    try RelationshipsTransaction(self, context)
  }
}
