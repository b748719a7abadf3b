/// A bulk load of entries into an empty family, apart from any commit.
///
/// All entries become visible at once, when `finish` is called; older snapshots and checks see the family as empty. If
/// `finish` is not called, no entry is kept. An ingestion belongs to one thread at a time.
public protocol StorageIngestion: AnyObject {
  /// Adds a key after all others. Throws `.invalidArgument` if it is not after the previous key, `.keyTooLong` and
  /// `.valueTooLong`.
  func put(_ key: RawSpan, _ value: RawSpan) throws
  /// Puts all entries into the family, durably, together with every commit before the call. Throws `.invalidArgument`
  /// if the family is not empty, without any change.
  func finish() throws
}
