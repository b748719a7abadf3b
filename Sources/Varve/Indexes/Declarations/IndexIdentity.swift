internal import Synchronization

/// The identity that an index value shares with its copies. By it, `format[keyPath: \.title]` and the property `title`
/// of the format are recognized as the same index.
///
/// The initializers of indexes create it, and thereby count the indexes that are made for a format.
final class IndexIdentity: Sendable {
  /// Counts the indexes that are made while a format is made.
  final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    var value: Int { count.load(ordering: .relaxed) }
    func add() { count.add(1, ordering: .relaxed) }
  }

  @TaskLocal static var counter: Counter?

  init() { Self.counter?.add() }
}
