import Dispatch
import Foundation
import Synchronization
import Varve
import VarveViews

/// Lists of Varve that follow commits. Those of a counted index take the same steps through its sections.
extension VarveShelf {
  func follow(
    _ changes: ShelfChanges, rounds: Int, _ change: @escaping @Sendable (Int) throws -> Void
  ) throws -> [UInt64]? {
    switch changes {
    case .all:
      return form == .index
        ? try followAll(sections, rounds, change)
        : try followAll(source, rounds, change)
    case .window, .main:
      guard form == .view else { return nil }
      let isOfMain = changes == .main
      return try MainActor.assumeIsolated { try followWindow(source, rounds, isOfMain: isOfMain, change) }
    }
  }

  private var source: ViewSource<AutoView<Int>, Book> {
    ViewSource(view, in: database) { row in try row.object(as: Book.self) }
  }

  /// Measures the steps of a mapping that shows all books.
  private func followAll<Source: ListSource>(
    _ source: Source, _ rounds: Int, _ change: (Int) throws -> Void
  ) throws -> [UInt64] {
    let connection = database.connection()
    var mapping = ListMapping(source)
    _ = try mapping.advance(with: connection)
    let count = mapping.count
    let changed = min(ShelfChanges.changed, count)
    return try (0..<rounds).map { round in
      try change(round)
      let begin = Clock.now()
      let changes = try mapping.advance(with: connection)
      let time = Clock.now() - begin
      guard !changes.isReload, changes.moves.count + changes.updates.count == changed, mapping.count == count
      else {
        throw EngineFailure(
          "the list reports \(changes.moves.count) moves and \(changes.updates.count) updates"
            + (changes.isReload ? ", and is shown again" : ""))
      }
      return time
    }
  }

  /// Measures a list with a window on the main actor: the time until it has changed, or the processor time of the main
  /// thread.
  @MainActor private func followWindow<Source: ListSource>(
    _ source: Source, _ rounds: Int, isOfMain: Bool, _ change: @escaping @Sendable (Int) throws -> Void
  ) throws -> [UInt64] {
    let list = LiveList(source, window: .first(ShelfChanges.loaded))
    var changes = 0
    list.onChange = { _ in changes += 1 }
    try Self.turn("is loaded") { list.state.isLoaded }
    return try (0..<rounds).map { round in
      let before = changes
      let failure = Mutex<String?>(nil)
      let committed = Atomic<UInt64>(0)
      let used = ThreadClock.now()
      // Another thread commits, so that the main thread does nothing but to show the list.
      DispatchQueue.global().async {
        do { try change(round) } catch { failure.withLock { $0 = "\(error)" } }
        committed.store(Clock.now(), ordering: .releasing)
      }
      try Self.turn("has changed") { changes > before || failure.withLock { $0 != nil } }
      let (shown, usedNow) = (Clock.now(), ThreadClock.now())
      if let failure = failure.withLock({ $0 }) { throw EngineFailure(failure) }
      // A list may be shown before the call that commits has returned.
      try Self.turn("is committed") { committed.load(ordering: .acquiring) > 0 }
      let begin = committed.load(ordering: .acquiring)
      return isOfMain ? usedNow - used : shown - min(begin, shown)
    }
  }

  /// Runs the main thread until a condition holds.
  @MainActor private static func turn(_ what: String, until condition: () -> Bool) throws {
    let deadline = Clock.now() + 60_000_000_000
    while !condition() {
      guard Clock.now() < deadline else { throw EngineFailure("in a minute, no list \(what)") }
      _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01))
    }
  }
}
