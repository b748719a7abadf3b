import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

@Suite struct ThreadPoolTests {
  /// A gate at which jobs wait.
  final class Gate: Sendable {
    private let word = Futex()
    func open() {
      word.store(1)
      word.wakeAll()
    }
    func pass() {
      while word.load() == 0 { word.wait(while: 0) }
    }
  }

  final class Log: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
    var count: Int { lines.withLock { $0.count } }
  }

  @Test(arguments: [1, 4])
  func `every job runs once`(threads: Int) {
    let pool = ThreadPool(threads: threads)
    let log = Log()
    for number in 0..<300 {
      let priority = BackgroundPriority.allCases[number % 4]
      if number % 7 == 0 {
        pool.submit("delayed", after: UInt64(number) * 1_000) { log.add("\(number)") }
      } else {
        pool.submit("job", priority: priority) { log.add("\(number)") }
      }
    }
    pool.wait { log.count == 300 }
    #expect(Set(log.all).count == 300)
    #expect(pool.parallelism == threads)
    pool.shutDown()
    #expect(log.count == 300)
  }

  @Test func `an urgent job never waits for a job of low priority, nor runs after one`() {
    let pool = ThreadPool(threads: 2)
    let gate = Gate()
    let log = Log()
    for _ in 0..<2 {
      pool.submit("compaction", priority: .low) {
        log.add("low")
        gate.pass()
      }
    }
    while log.count < 2 { sched_yield() }
    pool.submit("compaction", priority: .low) { log.add("third") }
    pool.submit("flush", priority: .high) { log.add("high") }
    pool.submit("syncer", after: 1_000) { log.add("delayed") }
    pool.wait { Set(log.all).isSuperset(of: ["high", "delayed"]) }
    #expect(!log.all.contains("third"))
    gate.open()
    pool.wait { log.count == 5 }
    pool.shutDown()
  }

  @Test func `an immediate job waits neither for a flush nor for a compaction`() {
    let pool = ThreadPool(threads: 1)
    let gate = Gate()
    let log = Log()
    for (index, priority) in [BackgroundPriority.low, .high].enumerated() {
      pool.submit("long", priority: priority) {
        log.add("long")
        gate.pass()
      }
      while log.count <= index { sched_yield() }
    }
    pool.submit("flush", priority: .high) { log.add("second flush") }
    for number in 0..<3 { pool.submit("log.prepare", priority: .immediate) { log.add("immediate \(number)") } }
    pool.wait { log.count == 5 }
    #expect(log.all == ["long", "long", "immediate 0", "immediate 1", "immediate 2"])
    gate.open()
    pool.wait { log.count == 6 }
    pool.shutDown()
  }

  @Test func `waiting jobs run by priority, then in order of their submission`() {
    let pool = ThreadPool(threads: 1)
    let urgentGate = Gate()
    let workerGate = Gate()
    let log = Log()
    let counter = Counter(Atomic(0))
    pool.submit("compaction", priority: .low) {
      counter.add()
      workerGate.pass()
    }
    // The job must have run before the next is submitted, which the worker would take first.
    while counter.value < 1 { sched_yield() }
    pool.submit("flush", priority: .high) {
      counter.add()
      urgentGate.pass()
    }
    while counter.value < 2 { sched_yield() }
    let immediateGate = Gate()
    pool.submit("log.prepare", priority: .immediate) {
      counter.add()
      immediateGate.pass()
    }
    while counter.value < 3 { sched_yield() }
    let jobs: [(String, BackgroundPriority)] = [
      ("a", .low), ("b", .normal), ("c", .high), ("d", .low), ("e", .normal), ("f", .immediate),
    ]
    for (name, priority) in jobs { pool.submit(name, priority: priority) { log.add(name) } }
    workerGate.open()
    pool.wait { log.count == 6 }
    #expect(log.all == ["f", "c", "b", "e", "a", "d"])
    urgentGate.open()
    immediateGate.open()
    pool.shutDown()
  }

  final class Counter: Sendable {
    private let count: Atomic<Int>
    init(_ count: consuming Atomic<Int>) { self.count = count }
    func add() { count.add(1, ordering: .releasing) }
    var value: Int { count.load(ordering: .acquiring) }
  }

  @Test func `a delayed job does not run early, and one with a later deadline does not delay it`() {
    let pool = ThreadPool(threads: 1)
    let clock = SystemClock()
    let log = Log()
    let start = clock.now()
    pool.submit("never", after: .max) { log.add("never") }
    pool.submit("soon", after: 2_000_000) { log.add("soon \(clock.now() - start >= 2_000_000)") }
    pool.wait { log.count == 1 }
    pool.shutDown()
    #expect(log.all == ["soon true"])
  }

  @Test func `a shutdown waits for running jobs and drops waiting jobs`() {
    let pool = ThreadPool(threads: 1)
    let gate = Gate()
    let log = Log()
    let counter = Counter(Atomic(0))
    pool.submit("compaction", priority: .low) {
      counter.add()
      gate.pass()
      log.add("ran")
    }
    while counter.value < 1 { sched_yield() }
    weak var held: Log?
    do {
      let captured = Log()
      held = captured
      pool.submit("compaction", priority: .low) {
        captured.add("")
        log.add("dropped")
      }
      pool.submit("later", after: 0) { gate.open() }
    }
    pool.wait { counter.value == 1 }
    gate.open()
    pool.shutDown()
    #expect(log.all.first == "ran")
    #expect(held == nil)
    pool.submit("late", priority: .high) { log.add("late") }
    pool.submit("late", after: 0) { log.add("late") }
    pool.shutDown()
    #expect(!log.all.contains("late"))
  }

  #if os(Linux)
    private static func threadName() -> String {
      var bytes = [UInt8](repeating: 0, count: 64)
      guard let file = try? PosixFileSystem().openFile("/proc/thread-self/comm", writable: false),
        let count = try? file.read(into: &bytes, at: 0)
      else { return "" }
      return String(decoding: bytes[..<count].dropLast(), as: UTF8.self)
    }

    /// Returns the priority of the calling thread; on Linux, threads have their own priority.
    private static func nice() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }

    @Test func `threads have names, and only the threads for jobs of all priorities run with a lower priority`() {
      for lowers in [true, false] {
        let pool = ThreadPool(threads: 1, lowersPriority: lowers)
        let log = Log()
        pool.submit("compaction", priority: .low) { log.add("worker \(Self.threadName()) \(Self.nice())") }
        pool.wait { log.count == 1 }
        // The job is submitted twice: the worker may take the first one before the urgent thread has slept for the
        // first time.
        let gate = Gate()
        pool.submit("compaction", priority: .low) { gate.pass() }
        pool.submit("flush", priority: .high) {
          log.add("urgent \(Self.threadName()) \(Self.nice())")
          gate.open()
        }
        pool.wait { log.count == 2 }
        pool.shutDown()
        let own = Self.nice()
        let lowered = lowers ? max(own, 5) : own
        #expect(log.all[0] == "worker varve-bg-1 \(lowered)")
        #expect(["urgent varve-bg-0 \(own)", "urgent varve-bg-1 \(lowered)"].contains(log.all[1]))
      }
    }
  #endif

  @Test func `a waiting thread checks its condition again when it is notified`() {
    let pool = ThreadPool(threads: 1)
    let looks = Counter(Atomic(0))
    let flag = Counter(Atomic(0))
    let waiter = EngineThread(name: "waiter") {
      pool.wait {
        looks.add()
        return flag.value == 1
      }
    }
    while looks.value == 0 { sched_yield() }
    flag.add()
    pool.wakeWaiters()
    waiter.join()
    #expect(looks.value >= 1 && flag.value == 1)
    pool.shutDown()
  }

  @Test func `a job can submit other jobs while many threads wait`() {
    let pool = ThreadPool(threads: 2)
    let counter = Counter(Atomic(0))
    @Sendable func spawn(_ depth: Int) {
      counter.add()
      guard depth > 0 else { return }
      for _ in 0..<2 { pool.submit("child", priority: depth % 2 == 0 ? .low : .high) { spawn(depth - 1) } }
    }
    pool.submit("root", priority: .normal) { spawn(7) }
    let waiters = (0..<4).map { _ in EngineThread(name: "waiter") { pool.wait { counter.value == 255 } } }
    for waiter in waiters { waiter.join() }
    #expect(counter.value == 255)
    pool.shutDown()
  }

  @Test func `delayed jobs leave the queue by deadline, equal ones in order`() {
    for seed in UInt64(0)..<20 {
      var random = SeededRandom(seed: seed)
      var queue = ThreadPoolQueue()
      var model: [(deadline: UInt64, name: String)] = []
      var now: UInt64 = 0
      for number in 0..<200 {
        if random.oneIn(3) {
          now += UInt64(random.below(40))
          queue.collectDue(now)
          let due = model.enumerated().filter { $0.element.deadline <= now }
            .sorted { ($0.element.deadline, $0.offset) < ($1.element.deadline, $1.offset) }.map(\.element.name)
          var found: [String] = []
          while let job = queue.takeFirst(.low ... .high) { found.append(job.name) }
          #expect(found == due, "seed \(seed)")
          model.removeAll { $0.deadline <= now }
        } else {
          let deadline = now + UInt64(random.below(100))
          let isFirst = queue.append(
            ThreadPoolQueue.Job(name: "\(number)", priority: .normal, body: {}), deadline: deadline)
          #expect(isFirst == model.allSatisfy { deadline < $0.deadline }, "seed \(seed)")
          model.append((deadline, "\(number)"))
        }
        #expect(queue.nextDeadline == model.map(\.deadline).min(), "seed \(seed)")
      }
    }
  }
}

@Suite struct FutexTests {
  @Test func `a wait ends at once if the word has changed, and at its timeout if no thread wakes it`() {
    let futex = Futex(3)
    let endedByItself = futex.wait(while: 2)
    #expect(endedByItself)
    let clock = SystemClock()
    let start = clock.now()
    while futex.wait(while: 3, nanoseconds: 1_000_000) {}
    #expect(clock.now() - start >= 1_000_000)
    let seen = [futex.exchange(expected: 3, desired: 9), futex.exchange(expected: 3, desired: 1), futex.increment()]
    #expect(seen == [3, 9, 10])
  }

  final class Pair: Sendable {
    let ping = Futex()
    let pong = Futex()
  }

  @Test func `no wake-up is lost between two threads`() {
    let pair = Pair()
    let rounds: UInt32 = 2_000
    let other = EngineThread(name: "pong") {
      for round in 0..<rounds {
        while pair.ping.load() == round { pair.ping.wait(while: round) }
        pair.pong.increment()
        pair.pong.wake()
      }
    }
    for round in 0..<rounds {
      pair.ping.increment()
      pair.ping.wake()
      while pair.pong.load() == round { pair.pong.wait(while: round) }
    }
    other.join()
    #expect(pair.ping.load() == rounds && pair.pong.load() == rounds)
  }
}
