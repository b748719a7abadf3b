import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of what listeners receive, on which thread, and what happens to events that are too many.
struct EventQueueTests {
  /// A listener that keeps the events that it receives, and waits at a gate while that is shut.
  private final class Recorder: EventListener {
    private let numbers = Mutex<[UInt64]>([])
    private let dropped = Mutex<UInt64>(0)
    let gate = Gate()

    func engineDidReport(_ event: EngineEvent) {
      gate.pass()
      switch event {
      case .tableDeleted(let number): numbers.withLock { $0.append(number) }
      case .eventsDropped(let count): dropped.withLock { $0 += count }
      default: Issue.record("an event that no one emitted: \(event)")
      }
    }

    var announced: [UInt64] { numbers.withLock { $0 } }
    var droppedCount: UInt64 { dropped.withLock { $0 } }
  }

  @Test func `events come in order, to every listener, also those of many threads`() async {
    let queue = EventQueue()
    let (first, second) = (Recorder(), Recorder())
    _ = queue.add(first)
    _ = queue.add(second)
    for number in 0..<500 { queue.emit(.tableDeleted(number: UInt64(number))) }
    await withTaskGroup(of: Void.self) { group in
      for thread in 1...3 {
        group.addTask { for number in 0..<100 { queue.emit(.tableDeleted(number: UInt64(thread * 1_000 + number))) } }
      }
    }
    queue.finish()
    #expect(Array(first.announced.prefix(500)) == Array(0..<500))
    #expect(first.announced.count == 800)
    #expect(first.announced == second.announced)
    for thread in 1...3 as ClosedRange<UInt64> {
      let own = first.announced.filter { $0 / 1_000 == thread }
      #expect(own == own.sorted() && own.count == 100)
    }
  }

  @Test func `a stuck listener blocks no caller, and receives the number of events that it missed`() {
    let queue = EventQueue()
    let recorder = Recorder()
    recorder.gate.shut()
    _ = queue.add(recorder)
    let total = UInt64(EventQueue.capacity * 4)
    for number in 0..<total { queue.emit(.tableDeleted(number: number)) }
    let dropped = queue.droppedCount
    // The events that were not dropped are those that one delivery removed, and those that wait after it.
    #expect(dropped >= total - UInt64(2 * EventQueue.capacity))
    recorder.gate.open()
    // A later event is accepted at some time, and delivers the count.
    while recorder.droppedCount == 0 { queue.emit(.tableDeleted(number: .max)) }
    queue.finish()
    #expect(recorder.droppedCount <= queue.droppedCount)
    let kept = recorder.announced.filter { $0 != .max }
    #expect(kept == kept.sorted())
    #expect(UInt64(kept.count) + dropped == total)
  }

  @Test func `without a listener no event is made`() {
    let queue = EventQueue()
    let made = Atomic<Int>(0)
    func event() -> EngineEvent {
      made.add(1, ordering: .relaxed)
      return .manifestRolled(number: 1)
    }
    queue.emit(event())
    #expect(made.load(ordering: .relaxed) == 0)
    let subscription = queue.add(ClosureListener { _ in })
    queue.emit(event())
    #expect(made.load(ordering: .relaxed) == 1)
    subscription.cancel()
    subscription.cancel()
    queue.emit(event())
    #expect(made.load(ordering: .relaxed) == 1)
    queue.finish()
  }

  @Test func `a listener may finish the queue`() {
    let queue = EventQueue()
    let isDone = Gate()
    isDone.shut()
    _ = queue.add(
      ClosureListener { _ in
        queue.finish()
        isDone.open()
      })
    queue.emit(.manifestRolled(number: 1))
    isDone.pass()
    queue.finish()
  }
}
