import VarveEngine

/// A pool of threads on which a writer never gives up its wait for memtables that only readers keep.
///
/// The engine ends that wait after a second, and then allocates one more memtable than the budget has. On a machine
/// that is busy enough, a thread can be inside of one read for that long, so the memory would depend on the machine.
final class PatientExecutor: BackgroundExecutor {
  private let pool: ThreadPool

  init(threads: Int) { pool = ThreadPool(threads: threads) }

  var parallelism: Int { pool.parallelism }

  func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    pool.submit(name, priority: priority, body)
  }

  func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    if name != "memtable.wait" { pool.submit(name, after: nanoseconds, body) }
  }

  func wait(until condition: @Sendable () -> Bool) { pool.wait(until: condition) }

  func wakeWaiters() { pool.wakeWaiters() }

  func shutDown() { pool.shutDown() }
}
