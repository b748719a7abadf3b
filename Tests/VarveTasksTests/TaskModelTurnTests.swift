import EngineTestSupport
import Foundation
import FutexLocks
import Synchronization
import Testing
import Varve
import VarveTestSupport
import VarveTesting

@_spi(Extensions) @_spi(Testing) @testable import VarveTasks

/// Tests of which task begins next, with handlers whose times are drawn: most return at once, and some run for an hour.
///
/// After each step the scheduler has done what it can, and then the following holds:
/// - No worker is free while a task may begin.
/// - No task has begun while a better one of its subqueue waited.
/// - No subqueue has begun two tasks in a row of turns in which another one could have begun its first.
/// - The claims on disk are those of tasks that run, and those that the scheduler knows as made ahead. After a death of
///   the process, exactly the tasks that ran are counted as crashed, and only these run alone.
/// - No turn of the loop has handled more than 512 tasks, or read more than 512 rows.
///
///     VARVE_TEST_SEED=17 ./tools/test --filter TaskModelTurnTests    # the run of one seed alone
struct TaskModelTurnTests {
  @Test func `tasks begin as soon as they may, the best one of a subqueue first, and subqueues take turns`()
    async throws
  {
    var (begun, deaths, ahead) = (0, 0, 0)
    for seed in TestScale.seed.map({ $0...$0 }) ?? 1...UInt64(TestScale.count(40)) {
      let run = try TaskModelTurnRun(seed: seed)
      do { try await run.run(80) } catch {
        run.letAllEnd()
        Issue.record(
          error, "VARVE_TEST_SEED=\(seed) shows it again, after \(run.trace.suffix(60).joined(separator: "\n"))")
        return
      }
      begun += run.begunCount
      deaths += run.deathCount
      ahead += run.aheadCount
    }
    print("turns: \(begun) tasks began, \(deaths) deaths, \(ahead) claims made ahead were seen")
    if TestScale.isWhole, TestScale.seed == nil { #expect(begun > 1_000 && deaths > 20 && ahead > 1_000) }
  }
}

/// A run of a scheduler, and a model of the tasks that wait and run.
final class TaskModelTurnRun {
  /// A task that waits or runs.
  private struct ModelTask {
    let number: Int
    let subqueue: String
    let priority: Int
    /// Whether its handler runs until a step ends it.
    let isLong: Bool
    var crashes = 0
    var isSuspect = false
  }

  /// The handlers that wait, and the tasks that have begun, in order.
  final class Handlers: Sendable {
    struct State {
      var begun: [Int] = []
      var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
      var isOpen = false
    }
    let state = Mutex(State())

    func run(_ number: Int, isLong: Bool) async {
      let waits = state.withLock { state in
        state.begun.append(number)
        return isLong && !state.isOpen
      }
      guard waits else { return }
      await withCheckedContinuation { continuation in
        let isOpen = state.withLock { state in
          if !state.isOpen { state.waiting[number] = continuation }
          return state.isOpen
        }
        if isOpen { continuation.resume() }
      }
    }

    func end(_ number: Int) { state.withLock { $0.waiting.removeValue(forKey: number) }?.resume() }
  }

  struct Difference: Error, CustomStringConvertible { let description: String }

  private var random: SeededRandom
  private var fixture: TaskFixture
  private var handlers = Handlers()
  private let workers: Int
  private let rules: [QueueSelector: QueueRules]
  private var waiting: [Int: ModelTask] = [:]
  private var running: [Int: ModelTask] = [:]
  private var ids: [Int: TaskID] = [:]
  private var paused: Set<String> = []
  private var number = 0
  private(set) var begunCount = 0
  private(set) var deathCount = 0
  private(set) var aheadCount = 0
  private(set) var trace: [String] = []
  /// The number of the beginning since which each subqueue could have begun a task all the time.
  private var eligibleSince: [String: Int] = [:]
  /// The numbers of the last beginnings of subqueues.
  private var lastBegin: [String: Int] = [:]
  private var isSuspectLeft: Bool {
    waiting.values.contains(where: \.isSuspect)
      || fixture.scheduler.dispatcher.state.withLock { $0.holds.suspect != nil }
  }

  /// The subqueues: the names of queues, and limit keys after a "#".
  private static let subqueues = ["p", "one", "k#a", "k#b", "k#c", "k", "s#a", "s#b", "s#c", "s", "t"]

  init(seed: UInt64) throws {
    random = SeededRandom(seed: seed)
    workers = 1 + random.below(3)
    var keyed = QueueRules(order: .standard, concurrency: 2)
    keyed.perKey = 1
    rules = [
      .named("one"): QueueRules(order: .standard, concurrency: 1), .named("k"): keyed,
      .named("s"): QueueRules(order: .serial(), concurrency: 1 + random.below(2)),
      .named("t"): QueueRules(order: .serial()),
    ]
    fixture = try TaskFixture(rules: rules, workers: workers)
    try register()
  }

  private func register() throws {
    let handlers = handlers
    try fixture.handle { note, _ in
      guard let number = Int(note.text.dropFirst()) else { return .done }
      await handlers.run(number, isLong: note.text.hasPrefix("h"))
      return .done
    }
  }

  private func require(_ isSo: Bool, _ what: @autoclosure () throws -> String) throws {
    if !isSo { throw Difference(description: try what()) }
  }

  private static func queue(_ subqueue: String) -> String { String(subqueue.split(separator: "#")[0]) }

  /// Lets all handlers return.
  func letAllEnd() {
    let waiting = handlers.state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [:] }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume() }
  }

  func run(_ count: Int) async throws {
    try await fixture.scheduler.start()
    for _ in 0..<count {
      try await step()
      try await settle()
      try checkTurns()
      try checkClaims()
    }
    try fixture.write { tx in for queue in paused { try tx.resume(QueueName(queue)) } }
    letAllEnd()
    await fixture.scheduler.waitUntilIdle()
    // Tasks that a process has died with wait for others.
    while try fixture.rowCount() > 0 { await fixture.scheduler.advance(fixture.clock, by: .seconds(10)) }
    try fixture.expectNothingLeft()
    let largest = fixture.scheduler.dispatcher.state.withLock { $0.largestTurn }
    try require(largest.tasks <= 512 && largest.rows <= 512, "a turn handled \(largest)")
    try await fixture.close()
  }

  // MARK: - Steps

  private func step() async throws {
    switch random.below(20) {
    case 0..<7: try enqueue()
    case 7..<14:
      guard let chosen = running.keys.sorted().randomElement(using: &random) else { return try enqueue() }
      trace.append("end \(chosen)")
      // An attempt that takes an hour is one by the clock, too. Others take no time.
      if random.oneIn(2) { fixture.clock.advance(by: .seconds(3_600)) }
      running[chosen] = nil
      handlers.end(chosen)
    case 14, 15: try pause()
    case 16, 17: try remove()
    case 18:
      trace.append("advance")
      fixture.clock.advance(by: .seconds(10))
    default: if random.oneIn(2) { try await die() }
    }
  }

  private func enqueue() throws {
    let isBatch = random.oneIn(6)
    try fixture.write { tx in
      for _ in 0..<(isBatch ? 20 + random.below(60) : 1 + random.below(4)) {
        number += 1
        let subqueue = Self.subqueues[random.below(Self.subqueues.count)]
        let parts = subqueue.split(separator: "#")
        var options = TaskOptions(queue: QueueName(Self.queue(subqueue)))
        options.priority = UInt8(random.below(3))
        if parts.count > 1 { options.limitKey = String(parts[1]) }
        let isLong = random.oneIn(5)
        ids[number] = try tx.enqueue(Note((isLong ? "h" : "q") + "\(number)"), options).id
        waiting[number] = ModelTask(number: number, subqueue: subqueue, priority: Int(options.priority), isLong: isLong)
      }
    }
    trace.append("enqueue up to \(number)")
  }

  private func pause() throws {
    let queue = ["p", "one", "k", "s", "t"][random.below(5)]
    let isPaused = paused.remove(queue) == nil
    if isPaused { paused.insert(queue) }
    trace.append("\(isPaused ? "pause" : "resume") \(queue)")
    try fixture.write { tx in
      if isPaused { try tx.pause(QueueName(queue)) } else { try tx.resume(QueueName(queue)) }
    }
  }

  /// Deletes or edits a task that waits, which may have a claim that was made ahead.
  private func remove() throws {
    guard let chosen = waiting.keys.sorted().randomElement(using: &random), let id = ids[chosen] else { return }
    if random.oneIn(2) {
      trace.append("delete \(chosen)")
      try require(try fixture.write { tx in try tx.delete(.id(id)) } == 1, "\(chosen) was not deleted")
      waiting[chosen] = nil
      return
    }
    trace.append("edit \(chosen)")
    guard let task = waiting[chosen] else { return }
    let priority = random.below(3)
    try fixture.write { tx in try tx.edit(id, priority: UInt8(priority)) }
    var changed = ModelTask(number: chosen, subqueue: task.subqueue, priority: priority, isLong: task.isLong)
    (changed.crashes, changed.isSuspect) = (task.crashes, task.isSuspect)
    waiting[chosen] = changed
  }

  /// Lets the process die, and starts another scheduler.
  private func die() async throws {
    deathCount += 1
    trace.append("die while \(running.keys.sorted()) run")
    fixture.scheduler.die()
    letAllEnd()
    for (number, task) in running {
      waiting[number] = task
      waiting[number]?.crashes += 1
      waiting[number]?.isSuspect = true
    }
    running = [:]
    eligibleSince = [:]
    lastBegin = [:]
    handlers = Handlers()
    fixture = try TaskFixture(
      fixture.database, rules: rules, workers: workers, clock: fixture.clock, maxCrashes: 0)
    try register()
    try await fixture.scheduler.start()
    try fixture.read { tx in
      for (number, task) in waiting {
        let progress = try ids[number].flatMap { try tx.task($0)?.progress }
        // A quick task may have ended already.
        try require(
          progress.map { Int($0.crashes) == task.crashes } ?? !task.isLong,
          "task \(number) has \(String(describing: progress)), expected \(task.crashes) crashes")
      }
    }
  }

  // MARK: - What follows

  /// Waits until the scheduler has done what it can, and takes over which tasks have begun.
  private func settle() async throws {
    let (dispatcher, handlers) = (fixture.scheduler.dispatcher, handlers)
    if let host = dispatcher.timerFired() { host.wake() }
    await fixture.poll {
      // Handlers that wait keep their workers, so if as many are busy afterwards, these are all.
      let waitingCount = handlers.state.withLock { $0.waiting.count }
      return dispatcher.state.withLock { state in
        !state.loop.isPumping && state.running.settlements.isEmpty && state.loop.requests.isEmpty
          && state.running.busyCount == waitingCount
      }
    }
    let begun = handlers.state.withLock { state in
      defer { state.begun = [] }
      return state.begun
    }
    // With one free worker the order of beginnings is known.
    let isOrdered = running.count == workers - 1
    let left = waiting.filter { !begun.contains($0.key) }
    for number in begun {
      guard let task = waiting[number] else {
        throw Difference(description: "task \(number) has begun, and does not wait")
      }
      try noteBegin(task, isOrdered, others: isOrdered ? waiting : left)
      waiting[number] = nil
      guard task.isLong else { continue }
      running[number] = task
      running[number]?.isSuspect = false
    }
    // Tasks that a process has died with run alone for a time, and so others wait.
    if isSuspectLeft { return eligibleSince = [:] }
    if running.count < workers {
      let subqueue = Self.subqueues.first { mayBegin($0) }
      try require(subqueue == nil, "a worker is free, and subqueue \(subqueue ?? "") has a task: \(whatIsLeft())")
    }
    for subqueue in Self.subqueues { noteEligible(subqueue) }
  }

  private func noteBegin(_ task: ModelTask, _ isOrdered: Bool, others: [Int: ModelTask]) throws {
    let subqueue = task.subqueue
    begunCount += 1
    trace.append("  \(subqueue) begins \(task.number)")
    try require(!paused.contains(Self.queue(subqueue)), "task \(task.number) has begun, whose queue is paused")
    // Others may overtake a task that has to begin alone, except in a serial queue.
    let isSerial = rules[.named(QueueName(Self.queue(subqueue)))]?.isSerial ?? false
    let better = others.values.first {
      $0.subqueue == subqueue && ($0.priority, $0.number) < (task.priority, task.number) && (isSerial || !$0.isSuspect)
    }
    // A task that was at the head of a serial queue when a process died is still there.
    try require(
      better == nil || task.crashes > 0,
      "task \(task.number) of \(subqueue) has begun before \(better?.number ?? 0), which is better")
    if isOrdered, let last = lastBegin[subqueue] {
      let other = Self.subqueues.first { other in
        guard other != subqueue, let since = eligibleSince[other] else { return false }
        // A subqueue whose queue has several may have to wait for the others of its queue.
        return since < last && (Self.queue(other) == Self.queue(subqueue) || ["p", "one", "t"].contains(other))
      }
      try require(
        other == nil, "\(subqueue) has begun \(task.number), its second task since \(other ?? "") could have begun one")
    }
    lastBegin[subqueue] = begunCount
    eligibleSince[subqueue] = nil
  }

  /// Returns whether a subqueue has a task that may begin when a worker is free.
  private func mayBegin(_ subqueue: String) -> Bool {
    let queue = Self.queue(subqueue)
    guard !paused.contains(queue), waiting.values.contains(where: { $0.subqueue == subqueue }) else { return false }
    let rules = rules[.named(QueueName(queue))] ?? QueueRules()
    let own = running.values.count { $0.subqueue == subqueue }
    let all = running.values.count { Self.queue($0.subqueue) == queue }
    return own < rules.runningMaximum(hasKey: subqueue.contains("#")) && all < rules.runningMaximum
  }

  /// Returns whether the tasks of a subqueue must be read from disk. Others begin while that is done.
  private func mustBeRead(_ subqueue: String) -> Bool {
    let parts = subqueue.split(separator: "#")
    return fixture.scheduler.dispatcher.state.withLock { state in
      guard let queue = state.names[QueueName(Self.queue(subqueue))]?.number else { return true }
      let lane = SubqueueID.lane(parts.count > 1 ? String(parts[1]) : nil)
      return state.subqueues[SubqueueID(queue: queue, lane: lane)]?.first == nil
    }
  }

  private func noteEligible(_ subqueue: String) {
    if !mayBegin(subqueue) || mustBeRead(subqueue) {
      eligibleSince[subqueue] = nil
    } else if eligibleSince[subqueue] == nil {
      eligibleSince[subqueue] = begunCount
    }
  }

  private func whatIsLeft() -> String {
    fixture.scheduler.dispatcher.state.withLock { state in
      "busy \(state.running.busyCount), ring \(state.subqueues.turns), ahead \(state.running.ahead.count), "
        + "suspect \(String(describing: state.holds.suspect)), postponed \(state.holds.postponedSubqueues) and \(state.holds.postponedTasks), "
        + "subqueues "
        + state.subqueues.values.map { subqueue in
          "\(subqueue.name)#\(subqueue.id.lane) \(subqueue.runningCount) \(subqueue.isInTurns) \(subqueue.waitsForQueue) \(subqueue.isCalled)"
        }.joined(separator: ", ")
    }
  }

  private func checkTurns() throws {
    let largest = fixture.scheduler.dispatcher.state.withLock { $0.largestTurn }
    try require(largest.tasks <= 512 && largest.rows <= 512, "a turn handled \(largest)")
  }

  /// Compares the claims on disk with the tasks that run, and those that are about to.
  private func checkClaims() throws {
    let (ahead, strays) = fixture.scheduler.dispatcher.state.withLock {
      ($0.running.ahead.claims, $0.running.ahead.strays.count)
    }
    aheadCount += ahead.count
    try require(ahead.values.allSatisfy(\.isWritten) && strays == 0, "\(strays) claims are left")
    try fixture.read { tx in
      let parts = try tx.tasks.parts
      var claims: [TaskID: Bool] = [:]
      var cursor = try parts.live.cursor(StorageRange(prefix: TaskKeys.claimPrefix))
      while let (key, value) = try cursor.next() {
        let id = try TaskKeys.id(of: key, at: 5)
        try require(claims[id] == nil, "task \(id) has two claims")
        claims[id] = try !TaskKeys.isAhead(value) || parts.config.get(ConfigKeys.begun(id)) == key
      }
      let begun = Set(running.keys.compactMap { ids[$0] })
      try require(
        Set(claims.filter(\.value).keys) == begun, "claims say that \(claims.filter(\.value).keys) run, not \(begun)")
      try require(
        Set(claims.filter { !$0.value }.keys) == Set(ahead.keys), "claims \(claims) are not those of \(ahead.keys)")
    }
  }
}
