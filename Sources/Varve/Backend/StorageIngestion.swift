/// Many entries for an empty family, which never were in a commit.
///
/// They come at one moment, when `finish` is called: snapshots and checks that are older see the family as empty. Where it
/// is not called nothing of them stays. It belongs to one thread at a time.
public protocol StorageIngestion: AnyObject {
  /// Adds a key after all others. Throws `.invalidArgument` where it is not after the one before, `.keyTooLong` and
  /// `.valueTooLong`.
  func put(_ key: RawSpan, _ value: RawSpan) throws
  /// Puts all of them into the family, durably, with every commit before the call. Throws `.invalidArgument` where the
  /// family holds anything; then nothing has changed.
  func finish() throws
}
