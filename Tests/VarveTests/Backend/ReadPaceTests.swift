import Synchronization
import Testing

@testable import Varve

/// Tests of the pauses by which many long reads leave time to everything else.
struct ReadPaceTests {
  private final class Sleeps: Sendable {
    private let all = Mutex<[UInt64]>([])
    func note(_ nanoseconds: UInt64) { all.withLock { $0.append(nanoseconds) } }
    func take() -> [UInt64] {
      all.withLock { all in
        defer { all = [] }; return all
      }
    }
  }

  private static let millisecond: UInt64 = 1_000_000

  @Test func `reads pause in proportion to their work and to the number of reads above the bound`() throws {
    let sleeps = Sleeps()
    let pace = ReadPace(places: 4) { sleeps.note($0) }
    for _ in 0..<4 { pace.begin() }
    try pace.pause(after: Self.millisecond)
    #expect(sleeps.take().isEmpty)
    // With twice as many, each read sleeps as long as it works, in short steps.
    for _ in 0..<4 { pace.begin() }
    try pace.pause(after: 12 * Self.millisecond)
    let steps = sleeps.take()
    #expect(steps.reduce(0, +) == 12 * Self.millisecond)
    #expect(steps.count == 3 && steps.allSatisfy { $0 <= 5 * Self.millisecond })
    for _ in 0..<2 { pace.end() }
    try pace.pause(after: 2 * Self.millisecond)
    #expect(sleeps.take() == [Self.millisecond])
    // A wrong number of reads does not stop a read.
    for _ in 0..<1_000_000 { pace.begin() }
    try pace.pause(after: 1_000 * Self.millisecond)
    #expect(sleeps.take().reduce(0, +) == 500 * Self.millisecond)
  }

  @Test func `a cancelled read ends within its pause`() async {
    let pace = ReadPace(places: 1) { _ in unsafe withUnsafeCurrentTask { unsafe $0?.cancel() } }
    for _ in 0..<2 { pace.begin() }
    let error = await Task { () -> (any Error)? in
      do {
        try pace.pause(after: 100 * Self.millisecond)
        return nil
      } catch { return error }
    }.value
    #expect(error is CancellationError)
  }
}
