import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks whose parents are gone before the scheduler knows that they depend on them.
struct LostParentTests {
  /// The parent has failed when the transaction begins, and is deleted while it runs, which counts as done.
  @Test(arguments: [TaskState.dead, .cancelled])
  func `transition 7: a task that a failed parent would block runs if that is deleted while it is being enqueued`(
    state: TaskState
  ) async throws {
    let fixture = try TaskFixture()
    try fixture.handle { note, _ in note.text == "parent" ? .discard("bad") : .done }
    let parent = try fixture.enqueue("parent") {
      $0.retention = .keep(.seconds(1_000))
      if state == .cancelled { $0.start = .parked(wakeOn: ["never"]) }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    if state == .cancelled { #expect(try await fixture.scheduler.cancel(.id(parent)) == 1) }
    #expect(try fixture.state(parent) == state)
    _ = fixture.lines.take()

    var options = TaskOptions()
    options.dependsOn = [parent]
    let open = await OpenTransaction(fixture) { [options] tx in try tx.enqueue(Note("child"), options) }
    #expect(try await fixture.scheduler.delete(.id(parent)) == 1)
    try await open.finish()
    await fixture.poll { fixture.lines.count == 1 }
    #expect(fixture.lines.take() == ["child"])
    await fixture.scheduler.waitUntilIdle()
    try fixture.expectNothingLeft()
    await fixture.scheduler.stop()
  }
}
