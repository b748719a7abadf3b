internal import Varve

/// The tasks that wait for another writer's commit.
struct ToyWatchers: Sendable {
  typealias Continuation = CheckedContinuation<CommitVersion, any Error>

  private struct Watcher {
    let backend: ObjectIdentifier
    let version: UInt64
    let continuation: Continuation
  }

  private var waiting: [Int: Watcher] = [:]
  /// The numbers of tasks that were canceled before they began to wait.
  private var canceled: Set<Int> = []
  private var lastNumber = 0

  mutating func makeNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }

  /// Begins to wait. Returns false if the task was canceled already.
  mutating func add(
    _ number: Int, _ backend: ToyBackend, _ version: UInt64, _ continuation: Continuation
  ) -> Bool {
    if canceled.remove(number) != nil { return false }
    waiting[number] = Watcher(backend: ObjectIdentifier(backend), version: version, continuation: continuation)
    return true
  }

  /// Removes and returns the continuations that wait for this commit.
  mutating func take(upTo version: UInt64) -> [Continuation] {
    let woken = waiting.filter { $0.value.version < version }
    for number in woken.keys { waiting[number] = nil }
    return woken.values.map(\.continuation)
  }

  mutating func cancel(_ number: Int) -> Continuation? {
    if let found = waiting.removeValue(forKey: number) { return found.continuation }
    canceled.insert(number)
    return nil
  }

  mutating func takeAll(of backend: ObjectIdentifier? = nil) -> [Continuation] {
    let ended = waiting.filter { backend == nil || $0.value.backend == backend }
    for number in ended.keys { waiting[number] = nil }
    return ended.values.map(\.continuation)
  }
}
