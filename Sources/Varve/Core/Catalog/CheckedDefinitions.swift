internal import Synchronization

/// The definitions of stores that were found to be consistent, so that reads of a collection that does not exist yet
/// check its definition only once.
///
/// It is safe to use from any thread.
final class CheckedDefinitions: Sendable {
  private struct Entry: Hashable {
    let format: ObjectIdentifier
    let collection: String
  }

  private let entries = Mutex<Set<Entry>>([])

  /// Calls `body`, unless it has returned before for this format and this collection. Throws what it throws.
  func check(_ format: ObjectIdentifier, of collection: String, _ body: () throws -> Void) throws {
    let entry = Entry(format: format, collection: collection)
    // The lock is not held, because `body` calls code of the program.
    if entries.withLock({ $0.contains(entry) }) { return }
    try body()
    _ = entries.withLock { $0.insert(entry) }
  }
}
