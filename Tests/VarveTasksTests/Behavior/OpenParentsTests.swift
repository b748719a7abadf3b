import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the search for a task that another one still waits for.
struct OpenParentsTests {
  /// A storage that counts reads in descending order.
  private final class DescentBackend: ObservedBackend, @unchecked Sendable {
    // Sendable: it has only atomic state.
    private let count = Atomic(0)
    var descents: Int { count.load(ordering: .acquiring) }

    override func didRead(_ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool) {
      if isReverse { count.add(1, ordering: .acquiringAndReleasing) }
    }
  }

  @Test func `the search for open parents does not turn back over those that have ended, if they end nearly in order`()
    async throws
  {
    let backend = DescentBackend(try EngineBackend.inMemory())
    let fixture = try TaskFixture(over: backend)
    let (child, count) = (TaskID(rawValue: 9_000), 200)
    let all = (1...count).map { TaskID(rawValue: UInt64($0)) }
    try await fixture.database.commitIndependently { parts in
      let live = try TaskParts(parts).live
      for parent in all { try live.put(TaskKeys.parent(of: child, parent), []) }
    }
    let open = OpenParents()
    let before = backend.descents
    // As when two workers end tasks: each second one ends before the first.
    for index in 0..<count {
      let parent = all[index ^ 1]
      let hasOther = try await fixture.database.commitIndependently { parts in
        let live = try TaskParts(parts).live
        try live.delete(TaskKeys.parent(of: child, parent))
        return try open.hasOther(than: parent, of: child, in: live)
      }
      #expect(hasOther == (index < count - 1))
    }
    // The last one has no one after it.
    #expect(backend.descents - before <= 2)
    try await fixture.close()
  }
}
