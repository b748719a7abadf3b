/// An iterator over changes that holds the source of its elements until it ends: with an error, or because the database
/// was closed. The error of one row that can't be decoded does not end it.
protocol HeldIterator: AsyncIteratorProtocol {
  /// The source of the elements. The source is released with the last iterator that holds it.
  associatedtype Source

  /// The source, or the error with which the iteration begins, or nil after the end.
  var source: Result<Source, any Error>? { get set }

  /// Returns the next element of the source, or nil if the database was closed.
  mutating func next(from source: Source) async throws -> Element?
}

extension HeldIterator {
  /// Returns the next element, or nil after the end. A cancelled call leaves the iteration intact, and so does one that
  /// throws the error of a row: the next call waits for the next change.
  mutating func advance() async throws -> Element? {
    guard let source else { return nil }
    do {
      if let element = try await next(from: source.get()) { return element }
    } catch let error as CancellationError { throw error } catch let error as DatabaseError where error.isOfOneRow {
      throw error
    } catch {
      self.source = nil
      throw error
    }
    self.source = nil
    return nil
  }
}
