public import Varve

/// What a list shows of one row of a view.
public struct ViewElement<Value: Sendable>: Identifiable, Sendable {
  /// The key of the row.
  public let id: RowKey
  /// What the program makes of the row.
  public let value: Value

  /// Creates an element.
  public init(id: RowKey, value: Value) {
    self.id = id
    self.value = value
  }
}

extension ViewElement: Equatable where Value: Equatable {}

/// The rows of a view as the source of a list.
///
/// ```swift
/// let shelf = ViewSource(byAuthor, in: database) { row in try row.object(as: Book.self) }
/// ```
///
/// It is a value: safe from any thread.
public struct ViewSource<View: DatabaseExtension, Value: Sendable>: ListSource where View.Transaction: ViewTransaction {
  /// The value that all rows of a group have in common.
  public typealias Group = View.Transaction.Group
  /// What the list shows of a row.
  public typealias Element = ViewElement<Value>

  /// The database.
  public let database: Database
  /// The view.
  public let view: ExtensionHandle<View>
  private let value: @Sendable (Row) throws -> Value

  /// Creates a source over a registered view. The closure makes the value of an element of its row.
  public init(
    _ view: ExtensionHandle<View>, in database: Database, element: @escaping @Sendable (Row) throws -> Value
  ) {
    self.view = view
    self.database = database
    value = element
  }

  /// The progress of the view's build, or `nil` if it is not being built.
  public var progress: BuildProgress? {
    guard let progress = database.progress(of: view.name), progress.fraction < 1 else { return nil }
    return progress
  }

  /// Returns the groups in ascending order, with the numbers of their rows. Throws `.notReady`, as all reads of a view
  /// that is being built do.
  public func groups(in tx: ReadTransaction) throws -> [(group: Group, count: Int)] { try tx[view].groups() }

  /// Returns the number of rows of a group.
  public func count(in group: Group, _ tx: ReadTransaction) throws -> Int { try tx[view].count(in: group) }

  /// Returns the rows at a range of offsets of a group.
  public func ids(in group: Group, at offsets: Range<Int>, _ tx: ReadTransaction) throws -> [RowKey] {
    try tx[view].rows(in: group, at: offsets)
  }

  /// Returns the group of a row, or `nil` if it is in none.
  public func group(of id: RowKey, _ tx: ReadTransaction) throws -> Group? { try tx[view].group(of: id) }

  /// Returns the group of a row and its offset there, or `nil` if it is in no group.
  public func place(of id: RowKey, _ tx: ReadTransaction) throws -> (group: Group, offset: Int)? {
    try tx[view].place(of: id)
  }

  /// Returns the element of a row, or `nil` if there is no such row. Throws what the closure throws.
  public func element(_ id: RowKey, _ tx: ReadTransaction) throws -> ViewElement<Value>? {
    try tx.row(id).map { ViewElement(id: id, value: try value($0)) }
  }

  /// Returns the rows of the view's collections that a commit has changed, each with what has changed, or `nil` if all
  /// rows of one of them were removed.
  public func changedIDs(by changes: ChangeSet, _ tx: ReadTransaction) throws -> [RowKey: ListFlags]? {
    let scope = try tx[view].content.scope
    var changed: [RowKey: ListFlags] = [:]
    if changes.isEverythingCleared { return nil }
    for collection in changes.changedCollections where scope.contains(collection) {
      if changes.isCleared(collection) { return nil }
      for row in changes.keys(in: collection) { changed[row] = ListFlags(row, in: changes) }
    }
    return changed
  }

  /// Returns a number that is another one when the view has content by another definition, or `nil` if it is being
  /// built.
  public func generation(_ tx: ReadTransaction) throws -> UInt64? {
    do { return try tx[view].content.context.contentIdentity } catch let error as DatabaseError
      where error.code == .notReady
    { return nil }
  }
}
