internal import Synchronization

/// What an index value and its copies have in common: how `format[keyPath: \.title]` and the property `title` of the format
/// are found to be the same index.
///
/// Made by the initialisers of indexes, which count those that are made for a format.
final class IndexIdentity: Sendable {
  /// How many indexes were made while a format was made.
  final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    var value: Int { count.load(ordering: .relaxed) }
    func add() { count.add(1, ordering: .relaxed) }
  }

  @TaskLocal static var counter: Counter?

  init() { Self.counter?.add() }
}
