import EngineTestSupport
import Foundation
import FutexLocks
import Testing

/// Tests of the lock for short critical sections.
struct FutexLockTests {
  private struct Stop: Error {}

  /// A counter that only the lock protects.
  private final class Counted: @unchecked Sendable {
    // Sendable: the properties are touched only with the lock held.
    var number = 0
    var inside = 0
    var most = 0
  }

  private static func run(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let group = DispatchGroup()
    for index in 0..<count {
      let thread = Thread {
        body(index)
        group.leave()
      }
      group.enter()
      thread.start()
    }
    group.wait()
  }

  @Test(arguments: [2, 16])
  func `one thread at a time holds the lock, and every thread gets it`(threads: Int) {
    let counted = Counted()
    let lock = FutexLock(counted)
    let turns = 20_000 / threads
    Self.run(threads) { index in
      for turn in 0..<turns {
        lock.withLock { counted in
          counted.inside += 1
          counted.most = max(counted.most, counted.inside)
          counted.number += 1
          // Some turns hold the lock so long that other threads sleep.
          if (index + turn).isMultiple(of: 97) { for _ in 0..<4 { sched_yield() } }
          counted.inside -= 1
        }
      }
    }
    #expect(counted.number == threads * turns && counted.most == 1)
  }

  @Test func `threads that sleep on a lock are woken one after the other`() {
    let lock = FutexLock(0)
    lock.withLock { _ in
      // All of the threads arrive while the lock is held.
    }
    let entered = DispatchSemaphore(value: 0)
    let release = DispatchSemaphore(value: 0)
    let holder = Thread {
      lock.withLock { _ in
        entered.signal()
        release.wait()
      }
    }
    holder.start()
    entered.wait()
    let done = DispatchGroup()
    for _ in 0..<8 {
      done.enter()
      Thread {
        lock.withLock { $0 += 1 }
        done.leave()
      }.start()
    }
    release.signal()
    done.wait()
    #expect(lock.withLock { $0 } == 8)
  }

  @Test func `an error releases the lock, and the value changes in place`() throws {
    let lock = FutexLock([1])
    #expect(throws: Stop.self) {
      try lock.withLock { (value: inout [Int]) throws(Stop) in
        value.append(2)
        throw Stop()
      }
    }
    #expect(lock.withLock { $0 } == [1, 2])
  }

  @Test func `the value is released with the lock`() {
    weak var held: Counted?
    do {
      let counted = Counted()
      held = counted
      let lock = FutexLock(counted)
      #expect(lock.withLock { $0 === counted })
    }
    #expect(held == nil)
  }
}
