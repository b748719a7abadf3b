public import Varve

/// Elements in groups and in order, as a list shows them: a view, or a query that is sectioned by a counted index.
///
/// Every call is a read of the transaction's snapshot. It is safe to use from any thread.
public protocol ListSource: Sendable {
  /// The value that all elements of a group have in common.
  associatedtype Group: Hashable & Sendable
  /// What a list shows of one row.
  associatedtype Element: Identifiable & Sendable where ID: Sendable

  /// The identity of an element: it stays the same when the element changes or moves.
  typealias ID = Element.ID

  /// The database.
  var database: Database { get }
  /// The progress of the source's build, or `nil` if it is not being built. The default is `nil`.
  var progress: BuildProgress? { get }

  /// Returns the groups that have elements, in ascending order, with the numbers of their elements.
  func groups(in tx: ReadTransaction) throws -> [(group: Group, count: Int)]
  /// Returns the number of elements of a group, zero for one that does not exist.
  func count(in group: Group, _ tx: ReadTransaction) throws -> Int
  /// Returns the identities of the elements at a range of offsets of a group, which is clamped to the group.
  func ids(in group: Group, at offsets: Range<Int>, _ tx: ReadTransaction) throws -> [ID]
  /// Returns the group of an element, or `nil` if it is in none.
  func group(of id: ID, _ tx: ReadTransaction) throws -> Group?
  /// Returns the place of an element, or `nil` if it is in no group.
  func place(of id: ID, _ tx: ReadTransaction) throws -> (group: Group, offset: Int)?
  /// Returns an element, or `nil` if there is none. Throws `.decodingFailed` for a row that can't be decoded.
  func element(_ id: ID, _ tx: ReadTransaction) throws -> Element?
  /// Returns the identities that a commit may have inserted, removed, moved or changed, each with what has changed, or
  /// `nil` if that is not known: for example because all rows of a collection were removed.
  ///
  /// The identities may include some that are in no group. `ListFlags.init(_:in:)` gives what has changed of a row.
  func changedIDs(by changes: ChangeSet, _ tx: ReadTransaction) throws -> [ID: ListFlags]?
  /// Returns a number that is another one when another definition of the source is in force, or `nil` if the source is
  /// being built.
  func generation(_ tx: ReadTransaction) throws -> UInt64?
}

extension ListSource {
  /// Returns `nil`.
  public var progress: BuildProgress? { nil }
}
