internal import Synchronization

/// Which definitions of stores were found to be without contradiction, so that reads of a collection that does not exist
/// yet check theirs once.
///
/// Safe from any thread.
final class CheckedDefinitions: Sendable {
  private struct Entry: Hashable {
    let format: ObjectIdentifier
    let collection: String
  }

  private let entries = Mutex<Set<Entry>>([])

  /// Calls `body`, unless it has returned before for this format and this collection. Throws what it throws.
  func check(_ format: ObjectIdentifier, of collection: String, _ body: () throws -> Void) throws {
    let entry = Entry(format: format, collection: collection)
    // Not under the lock: it calls what the program has written.
    if entries.withLock({ $0.contains(entry) }) { return }
    try body()
    _ = entries.withLock { $0.insert(entry) }
  }
}
