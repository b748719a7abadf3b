/// A row that this build of the program can't decode.
///
/// A value. Safe from any thread.
public struct UndecodableRow: Sendable, CustomStringConvertible {
  /// The key of the row: `try row.key.key(as: UUID.self)` is the identifier.
  public let key: RowKey
  /// The error of decoding it.
  public let error: DatabaseError
  /// The stored object, or nil if not even the header of the row can be read.
  public let stored: StoredValue?

  /// Creates a row that threw an error. `stored` is nil if its header can't be read.
  init(_ storageKey: [UInt8], _ stored: StoredValue?, _ info: CollectionInfo, _ error: DatabaseError) {
    key = info.key(of: storageKey)
    self.error = error
    self.stored = stored
  }

  /// The text of the error, which has the collection and the key.
  public var description: String { error.description }
}

extension DatabaseError {
  /// Whether the error means that a row can't be decoded, as far as its code says.
  var isOfUndecodableRow: Bool {
    switch code {
    case .decodingFailed, .unsupportedVersion, .unknownCoder, .corruption: true
    default: false
    }
  }

  /// Whether the error is about one row, so that others can be read.
  var isOfOneRow: Bool { isOfUndecodableRow && (code != .corruption || key != nil) }
}
