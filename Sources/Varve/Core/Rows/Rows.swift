/// Instances as they are read one after the other: an asynchronous sequence.
///
/// ```swift
/// for try await book in store.load("A"..<"B") { print(book.title) }
/// ```
///
/// It shows the database as it was at the call that made it; made inside of a write or of `perform`, with what that had
/// written until then. It may be iterated several times, at once too, each time with the same answer. The snapshot that
/// it shows is kept as long as the sequence or an iterator of it is.
///
/// Rows are fetched 256 or 64 KiB at a time: an iteration suspends once for so many of them. A row that can't be
/// decoded is thrown when it is its turn, and ends the iteration. What is wrong with the range or the collection is
/// thrown by the first `next`. A cancelled task gets `CancellationError`.
public struct Rows<Element: Sendable>: AsyncSequence, Sendable {
  /// What goes wrong: any error.
  public typealias Failure = any Error

  let source: RowSource<Element>

  init(_ source: RowSource<Element>) { self.source = source }

  /// An iteration from the beginning.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source) }

  /// One iteration.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let source: RowSource<Element>
    /// The batch at hand; nil before the first.
    private var batch: RowBatch<Element>?
    private var index = 0
    private let batchLimit: Int

    fileprivate init(_ source: RowSource<Element>, batchLimit: Int = .max) {
      self.source = source
      self.batchLimit = batchLimit
    }

    /// The next instance; nil after the last.
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

  // MARK: - Helpers

  /// The first instance; nil where there is none. No other is fetched.
  public var first: Element? {
    get async throws {
      var iterator = AsyncIterator(source, batchLimit: 1)
      return try await iterator.next()
    }
  }

  /// The first instances, `count` of them at most.
  public func collect(upTo count: Int) async throws -> [Element] {
    var elements: [Element] = []
    guard count > 0 else { return elements }
    var iterator = AsyncIterator(source, batchLimit: count)
    while elements.count < count, let element = try await iterator.next() { elements.append(element) }
    return elements
  }

  /// All instances.
  public func collect() async throws -> [Element] { try await collect(upTo: .max) }
}
