/// The elements of a sequence that was passed to a call as `sending`, on their way to another thread.
final class AwaitedElements<Element>: Sequence, IteratorProtocol, @unchecked Sendable {
  // Sendable: the sequence was passed as `sending`, so no other code can reach what it references. Its caller awaits
  // the transactions that read it, which follow one another, so one thread at a time uses it.
  private let advance: () -> Element?

  /// Begins to read a sequence, which is one that was passed as `sending`, or is read by the calling thread.
  init(_ source: some Sequence<Element>) {
    var iterator = source.makeIterator()
    advance = { iterator.next() }
  }

  /// Returns the next element, or nil after the last.
  func next() -> Element? { advance() }
}
