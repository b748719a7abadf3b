internal import VarveEngine

/// Calls a closure when files may have been moved into a directory, as long as the object lives.
///
/// The system reports this to one thread of the process, which also serves the requests of other processes to the
/// databases that are open: nothing is polled.
///
/// Safe from any thread.
@_spi(Extensions)
public final class DirectoryChanges: Sendable {
  private let watch: DirectoryWatch

  /// Begins to watch an existing directory for files with names that end in `suffix`. Returns `nil` if the system can't
  /// watch it.
  ///
  /// The closure is called on the thread of all watches, so it returns at once. A call that has begun can continue
  /// after the object was released. Of a directory that is renamed, the files are still reported.
  public init?(_ path: String, suffix: String, _ body: @escaping @Sendable () -> Void) {
    guard let watch = DirectoryWatch(path, suffix: suffix, body) else { return nil }
    self.watch = watch
  }
}
