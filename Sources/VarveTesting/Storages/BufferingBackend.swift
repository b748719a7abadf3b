public import Varve

/// A storage of a test that only commits batches: the writes of its transactions are kept by a ``BufferedWriting``.
///
/// The writes of a large transaction are slow, as that type documents.
public protocol BufferingBackend: StorageBackend {}

extension BufferingBackend {
  /// Returns a `BufferedWriting`.
  public func begin(at snapshot: any StorageSnapshot) throws -> any StorageWriting { BufferedWriting(snapshot) }

  /// Commits the batch of a `BufferedWriting`.
  public func commit(
    _ writing: any StorageWriting, then batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    guard let writing = writing as? BufferedWriting else {
      throw DatabaseError(.invalidArgument, "the write to commit was begun in another storage")
    }
    return try commit(writing.batch(then: batch), check: check, durability: durability)
  }
}
