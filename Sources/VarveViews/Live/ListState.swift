public import Varve

/// The state of a list that a user interface shows.
public enum ListState: Sendable {
  /// Nothing was read yet.
  case notLoaded
  /// The first rows are being read.
  case loading
  /// The source is being built, with its progress if that is known. Rows that were shown before stay.
  case building(BuildProgress?)
  /// The rows are those of the newest commit that was read.
  case loaded
  /// The rows can't be read. The former ones stay, and each commit leads to another attempt.
  case failed(any Error)

  /// Whether the rows are those of the newest commit that was read.
  public var isLoaded: Bool {
    if case .loaded = self { return true }
    return false
  }

  /// The state when the database is closed: what is shown stays, and what was not read yet never will be.
  var ended: ListState {
    switch self {
    case .notLoaded, .loading, .building: .failed(DatabaseError(.closed, "the database was closed"))
    case .loaded, .failed: self
    }
  }

  /// The error, or `nil` if there is none.
  public var error: (any Error)? {
    if case .failed(let error) = self { return error }
    return nil
  }
}
