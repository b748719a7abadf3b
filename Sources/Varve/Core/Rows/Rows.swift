/// An asynchronous sequence of instances that are read one after the other.
///
/// ```swift
/// for try await book in store.load("A"..<"B") { print(book.title) }
/// ```
///
/// The sequence shows the database as of the call that made it; inside a write or `perform`, that includes what the
/// transaction had written until then. It may be iterated several times, even concurrently, each time with the same
/// result. Its snapshot is retained as long as the sequence or an iterator of it exists.
///
/// Rows are fetched in batches of 256 rows or 64 KiB, and an iteration suspends once per batch. A row that can't be
/// decoded throws when its turn comes, which ends the iteration, unless its format leaves out or replaces such rows
/// (``RowFormat/undecodable``). An invalid range or collection throws at the first
/// `next`. A cancelled task receives `CancellationError`.
public struct Rows<Element: Sendable>: AsyncSequence, Sendable {
  /// The type of the errors, which may be any.
  public typealias Failure = any Error

  let source: RowSource<Element>

  init(_ source: RowSource<Element>) { self.source = source }

  /// Creates an iterator that begins with the first instance.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source) }

  /// An iterator over the instances.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let source: RowSource<Element>
    /// The current batch, or `nil` before the first.
    private var batch: RowBatch<Element>?
    private var index = 0
    private let batchLimit: Int

    fileprivate init(_ source: RowSource<Element>, batchLimit: Int = .max) {
      self.source = source
      self.batchLimit = batchLimit
    }

    /// Returns the next instance, or `nil` after the last.
    public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async throws -> Element? {
      try Task.checkCancellation()
      while true {
        guard let batch else {
          self.batch = try await source.batch(try await source.scan(), limit: batchLimit)
          continue
        }
        if index < batch.elements.count {
          defer { index += 1 }
          return batch.elements[index]
        }
        if let error = batch.error {
          self.batch = .end
          throw error
        }
        guard let rest = batch.rest else { return nil }
        self.batch = .end
        self.batch = try await source.batch(rest, limit: batchLimit)
        index = 0
      }
    }
  }

  /// The rows that were left out until now, because they can't be decoded: see ``RowFormat/undecodable``. Iterations of
  /// one sequence share it, and so do the other answers of a surrounding transaction.
  public var skippedRows: SkippedRows { source.skippedRows }

  // MARK: - Helpers

  /// The first instance, or `nil` if there is none. No other instance is fetched.
  public var first: Element? {
    get async throws {
      var iterator = AsyncIterator(source, batchLimit: 1)
      return try await iterator.next()
    }
  }

  /// Returns the first instances, at most `count` of them.
  public func collect(upTo count: Int) async throws -> [Element] {
    var elements: [Element] = []
    guard count > 0 else { return elements }
    var iterator = AsyncIterator(source, batchLimit: count)
    while elements.count < count, let element = try await iterator.next() { elements.append(element) }
    return elements
  }

  /// Returns all instances.
  public func collect() async throws -> [Element] { try await collect(upTo: .max) }
}
