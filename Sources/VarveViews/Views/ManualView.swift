@_spi(Extensions) public import Varve

/// A view whose rows the program itself puts into groups, in an order of its own: a playlist, a list that the user
/// sorts by hand.
///
/// ```swift
/// let playlists = ManualView<String>(of: ["songs"]).named("playlists")
///
/// try database.write { tx in
///   try tx[playlists].append([song, other], to: "evening")
///   try tx[playlists].move([other], before: song, in: "evening")
/// }
/// ```
///
/// A row leaves the view when it is removed from the database. What the program has added is data like rows: no build
/// makes it again, and it stays when the program is given another definition of the view. It is lost when the extension
/// is unregistered.
///
/// Each change of a row's place touches the row (`WriteTransaction.touchRow`), so that observers and the feed name it.
///
/// This is a value: safe from any thread.
public struct ManualView<Group: KeyCodable>: DatabaseExtension {
  /// The view in a transaction.
  public typealias Transaction = ManualViewTransaction<Group>
  /// The kind of the extension, `varve.manualView` and the type of the groups: rows that the program has put into
  /// groups of one type are refused as groups of another.
  public static var kind: String { "varve.manualView \(Group.keyType)" }

  /// The collections whose rows the view may have, or `nil` for all.
  public let collections: Set<String>?

  /// Creates a view for rows of some collections, or of all.
  public init(of collections: Set<String>? = nil) { self.collections = collections }

  var scope: CollectionScope { collections.map { .only($0) } ?? .all }
  static var version: String { "1" }
}

// MARK: - The extension

extension ManualView {
  /// The part that is empty until the rows of the database were compared with those of the view.
  ///
  /// It is emptied whenever the extension is built, because it may have missed any removal of a row: at the end of the
  /// build, the view is swept, and the part gets an entry.
  static var sweptPart: String { "swept" }

  /// The configuration.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: Self.version)
    configuration.scope = scope
    configuration.events = [.removals]
    configuration.delivery = .immediate
    configuration.catchesUp = true
    configuration.parts = [ViewParts.rows, ViewParts.places].map { name in
      var part = PartDefinition(name)
      part.isDerived = false
      part.isCounted = name == ViewParts.rows
      return part
    }
    configuration.parts.append(PartDefinition(Self.sweptPart))
    return configuration
  }

  /// Throws `.invalidDefinition` for a view without collections.
  @_spi(Extensions) public func check(registered: [String: any DatabaseExtension]) throws {
    if collections?.isEmpty == true { throw DatabaseError(.invalidDefinition, "a view has no collections") }
  }

  /// Creates the object of a transaction.
  @_spi(Extensions) public func makeTransaction(
    _ context: ExtensionContext<ManualView>
  ) throws -> ManualViewTransaction<Group> {
    try ManualViewTransaction(self, context)
  }
}
