@_spi(Extensions) public import Varve

/// A view whose rows are placed by a closure: it returns a group and a position for a row, or `nil` for a row that
/// belongs to no group.
///
/// ```swift
/// let byAuthor = AutoView(version: "1", of: ["books"]) { row in
///   let book = try row.object(as: Book.self)
///   return ViewPlace(book.author, Descending(book.year), book.title)
/// }.named("byAuthor")
///
/// let titles = try database.read { tx in
///   try tx[byAuthor].rows(in: "Woolf", at: 0..<10).map { try tx.row($0)?.object(as: Book.self).title }
/// }
/// ```
///
/// # The closure
/// It must depend on nothing but the row that it is passed, and be given another version when it changes: the content
/// that it has made is on disk. It is called once for each change of a row that concerns what it reads (`reads`), and
/// when the view is built. A row that is touched is always passed to it.
///
/// If it throws `.decodingFailed`, `.unsupportedVersion`, `.invalidKey` or `.keyTooLong`, or if the place can't be a
/// key of the storage, the row is in no group, and ``ViewTransaction/unplacedRows(limit:)`` lists it. Every other error
/// refuses the change of the row: the transaction is doomed. In a build it ends the build.
///
/// # Other definitions
/// `WriteTransaction.replaceDefinition` puts another definition in force, which must have the same type of groups.
///
/// This is a value: safe from any thread.
public struct AutoView<Group: KeyCodable>: DatabaseExtension {
  /// The view in a transaction.
  public typealias Transaction = AutoViewTransaction<Group>
  /// The kind of the extension, `varve.autoView`.
  public static var kind: String { "varve.autoView" }

  /// The closure that places a row.
  public typealias Place = @Sendable (Row) throws -> ViewPlace<Group>?

  /// The collections whose rows the view may have.
  public let collections: Set<String>
  /// What the closure reads of a row.
  public let reads: RowInputs
  /// Whether the view is kept in memory, and built again at each registration.
  public let isVolatile: Bool
  /// Whether rows that exist when the view is registered are placed. If not, each of them is placed when it is changed
  /// or touched.
  public let isFilled: Bool
  /// The versions of the view and of its filters.
  private let versions: [String]
  let place: Place

  /// The version: that of the view, and those of its filters after it.
  public var version: String { versions.joined(separator: Self.separator) }

  private static var separator: String { "/" }

  /// Creates a view.
  ///
  /// Another `version` builds the view again; it must not be empty or contain `/`, `=` or U+001F. A view that is not
  /// filled loses its rows when it is given another version, and when it has missed more changes than the database
  /// keeps.
  public init(
    version: String, of collections: Set<String>, reads: RowInputs = .object, isVolatile: Bool = false,
    isFilled: Bool = true, place: @escaping Place
  ) {
    self.init([version], collections, reads, isVolatile, isFilled, place)
  }

  private init(
    _ versions: [String], _ collections: Set<String>, _ reads: RowInputs, _ isVolatile: Bool, _ isFilled: Bool,
    _ place: @escaping Place
  ) {
    self.versions = versions
    self.collections = collections
    self.reads = reads
    self.isVolatile = isVolatile
    self.isFilled = isFilled
    self.place = place
  }

  /// Returns a view of the rows of this one that a condition keeps, in the same groups and the same order.
  ///
  /// It is a view of its own with a closure that is composed of both: it does not need this one to be registered, and
  /// its version contains that of this one. `reads` is what the condition reads; the result also reads what this view
  /// reads. The condition is called for rows that this view has, and may throw as its closure may.
  public func filtered(
    version: String, reads: RowInputs = .object, where keeps: @escaping @Sendable (Row) throws -> Bool
  ) -> AutoView {
    let place = place
    return AutoView(versions + [version], collections, self.reads.union(reads), isVolatile, isFilled) { row in
      guard let found = try place(row), try keeps(row) else { return nil }
      return found
    }
  }
}

// MARK: - The extension

extension AutoView {
  /// The configuration. Delivery is immediate, so that the view is right inside hooks, too.
  @_spi(Extensions) public var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.scope = .only(collections)
    configuration.events = reads.events
    configuration.delivery = .immediate
    configuration.catchesUp = !isVolatile
    configuration.build = isFilled ? .background : .none
    configuration.parts = [ViewParts.rows, ViewParts.places, ViewParts.unplaced].map { name in
      var part = PartDefinition(name)
      // Another type of groups has other keys, even if the program has forgotten the version.
      part.version = Group.keyType.description
      part.isVolatile = isVolatile
      part.isCounted = name == ViewParts.rows
      return part
    }
    return configuration
  }

  /// Throws `.invalidDefinition` for a view without collections, and `.invalidArgument` for a version that is empty or
  /// contains `/`.
  @_spi(Extensions) public func check(registered: [String: any DatabaseExtension]) throws {
    if collections.isEmpty { throw DatabaseError(.invalidDefinition, "a view has no collections") }
    for version in versions where version.isEmpty || version.contains(Self.separator) {
      throw DatabaseError(
        .invalidArgument,
        "the version of a view, or of its filter, is \"\(version)\"; it must not be empty or contain \"\(Self.separator)\""
      )
    }
  }

  /// Creates the object of a transaction.
  @_spi(Extensions) public func makeTransaction(
    _ context: ExtensionContext<AutoView>
  ) throws -> AutoViewTransaction<Group> {
    try AutoViewTransaction(self, context)
  }
}
