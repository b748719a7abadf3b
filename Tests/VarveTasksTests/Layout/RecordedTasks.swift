import EngineTestSupport
import Testing
import Varve
import VarveEngine
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks

/// A database whose reads and changes are recorded, and its scheduler.
struct RecordedTasks {
  let engine: Engine
  let backend: RecordingBackend
  let fixture: TaskFixture

  /// Creates an empty database. Commits of the scheduler wait at `gate` while it is shut.
  init(rules: [QueueSelector: QueueRules] = [:], workers: Int = 1, gate: Gate? = nil) throws {
    engine = try Engine.open(at: "/recorded", environment: .inMemory())
    let storage = try EngineBackend(engine)
    if let gate {
      backend = RecordingBackend(HeldBackend(storage, gate, holding: .process))
    } else {
      backend = RecordingBackend(storage)
    }
    fixture = try TaskFixture(over: backend, rules: rules, workers: workers)
  }

  /// Returns the family of a part of the extension. It exists as soon as something was written to it.
  func family(_ part: String) throws -> StorageFamily {
    try #require(try backend.families().first { $0.name.hasPrefix("x.") && $0.name.hasSuffix(".\(part)") })
  }

  /// Forgets what was recorded so far.
  func forget() {
    _ = backend.takeReads()
    _ = backend.takeCommits()
  }

  /// Returns what was read of the tasks that have not ended, since the last call.
  func takeReads() throws -> [RecordingBackend.Read] {
    let live = try family("live")
    return backend.takeReads().filter { $0.family.number == live.number }
  }

  /// Returns what each commit since the last call has changed of the tasks that have not ended, without commits that
  /// have changed nothing of them.
  func takeChanges() throws -> [[RecordingBackend.Change]] {
    let live = try family("live")
    return backend.takeCommits().map { $0.changes.filter { $0.family == live.number } }.filter { !$0.isEmpty }
  }
}

extension [RecordingBackend.Change] {
  /// Returns the first bytes of the keys of the changes that are of a kind.
  func tags(_ operations: StorageBatch.Operation...) -> [UInt8] {
    filter { operations.contains($0.operation) }.compactMap(\.key.first)
  }
}
