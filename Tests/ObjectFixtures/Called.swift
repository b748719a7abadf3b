import Synchronization

/// A list of the names of calls, in order. Safe from any thread.
final class Called: Sendable {
  private let names = Mutex<[String]>([])

  func add(_ name: String) { names.withLock { $0.append(name) } }
  var all: [String] { names.withLock { $0 } }
}
