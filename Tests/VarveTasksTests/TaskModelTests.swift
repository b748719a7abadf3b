import EngineTestSupport
import Foundation
import FutexLocks
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of random tasks and changes of them, by a scheduler and by a model that follows the rules step by step.
///
/// Every transition of a task is among the steps. The process dies at random while handlers run: then an image of the
/// database's files is opened, and the states of all tasks, their order in the queues and the counts are those of the
/// model.
///
///     VARVE_TEST_SCALE=20 ./tools/test --filter TaskModelTests   # a million operations
///     VARVE_TEST_SEED=17 ./tools/test --filter TaskModelTests    # the run of one seed alone
struct TaskModelTests {
  enum Step: Int, CaseIterable {
    case enqueue, cancel, wake, revive, delete, edit, signal, pause, resume, advance, prune, restart, undone
    case hold, crash, interrupt, cancelRunning, changeRunning, follow
    case child, unique, keyed

    /// Whether the step is an operation, and not a property of a task that is enqueued, or a frame of others.
    var isOperation: Bool { self != .child && self != .unique && self != .keyed && self != .hold }
  }

  /// The seed from the environment, or `nil` if the test chooses the seeds.
  private static let chosenSeed = ProcessInfo.processInfo.environment["VARVE_TEST_SEED"].flatMap { UInt64($0) }

  /// The number of parts, which run concurrently, each with seeds of its own.
  private static let partCount = 2

  @Test(arguments: 0..<partCount)
  func `tasks of a scheduler have the states and the order of the model`(part: Int) async throws {
    if part > 0, Self.chosenSeed != nil { return }
    let wanted = TestScale.count(50_000) / Self.partCount
    var counts: [Step: Int] = [:]
    var transitions: [Int: Int] = [:]
    var (runs, operations) = (0, 0)
    var seed = Self.chosenSeed ?? UInt64(part) * 1_000_000 + 1
    repeat {
      let run = try TaskModelRun(seed: seed)
      do { try await run.run(250) } catch {
        Issue.record(
          error, "VARVE_TEST_SEED=\(seed) shows it again, after \(run.trace.suffix(400).joined(separator: "\n"))")
        return
      }
      counts.merge(run.counts) { $0 + $1 }
      transitions.merge(run.model.transitions) { $0 + $1 }
      runs += run.model.runs
      operations += run.operations
      seed += 1
    } while operations < wanted && Self.chosenSeed == nil
    let mix = Step.allCases.map { "\($0) \(counts[$0] ?? 0)" }.joined(separator: ", ")
    let made = (1...26).map { "\($0): \(transitions[$0] ?? 0)" }.joined(separator: ", ")
    print("tasks: \(operations) operations, \(runs) attempts, up to seed \(seed - 1); \(mix); transitions \(made)")
    guard TestScale.isWhole, Self.chosenSeed == nil else { return }
    #expect(operations >= wanted)
    for step in Step.allCases { #expect((counts[step] ?? 0) * 500 >= operations, "\(step)") }
    for number in 1...26 { #expect((transitions[number] ?? 0) > 0, "transition \(number)") }
    #expect(runs * 4 > operations)
  }
}

/// A run of the model and a scheduler.
///
/// Between two steps no task runs. In a step of `TaskModelRun+Running.swift`, handlers wait until the step ends them.
final class TaskModelRun {
  var random: SeededRandom
  var disk: CrashFileSystem
  var gate: HandlerGate
  var fixture: TaskFixture
  /// A reader as in another process, which continues over restarts of the scheduler.
  var follower: Database?
  var model = TaskModel()
  private(set) var counts: [TaskModelTests.Step: Int] = [:]
  /// The number of operations, where a transaction that is rolled back counts as one.
  private(set) var operations = 0
  private var isUndoing = false
  var trace: [String] = []
  var ids: [Int: TaskID] = [:]
  var number = 0
  private static let queues = ["s-block-1", "s-skip-1", "p-1", "p-2"]
  private static let rules: [QueueSelector: QueueRules] = [
    .prefix("s-block"): QueueRules(order: .serial(onDead: .block), concurrency: 3),
    .prefix("s-skip"): QueueRules(order: .serial(onDead: .skip)),
  ]

  struct Difference: Error, CustomStringConvertible { let description: String }

  init(seed: UInt64) throws {
    random = SeededRandom(seed: seed)
    let (disk, gate) = (CrashFileSystem(seed: seed), HandlerGate())
    self.disk = disk
    self.gate = gate
    fixture = try Self.fixture(try Self.open(disk), gate, ManualSchedulerClock())
  }

  static func open(_ disk: CrashFileSystem, follows: Bool = false) throws -> Database {
    var options = DatabaseOptions()
    options.follows = follows
    return try Database.open(
      try TaskDisk.backend(disk, follows: follows), path: TaskDisk.path,
      definition: DatabaseDefinition {
        CollectionDefinition("effects", Int.self, key: String.self)
        TaskStorage.handle
      }, options: options)
  }

  static func fixture(_ database: Database, _ gate: HandlerGate, _ clock: ManualSchedulerClock) throws -> TaskFixture {
    let fixture = try TaskFixture(
      database, rules: rules, workers: 2, clock: clock, maxCrashes: TaskModel.maxCrashes, drainTimeout: .zero)
    for queue in queues {
      let lease: Duration? = queue == TaskModel.leased ? .milliseconds(TaskModel.lease) : nil
      try fixture.handle(on: .named(QueueName(queue)), lease: lease) { note, context in
        try await TaskModelRun.runHandler(note, context, gate)
      }
    }
    return fixture
  }

  private static func runHandler(_ note: Note, _ context: TaskContext, _ gate: HandlerGate) async throws -> TaskOutcome
  {
    let passage = await gate.pass(context.id)
    // A handler whose task is cancelled ends as it would have done.
    if passage == .died || passage == .cancelled && !context.isCancelled { throw CancellationError() }
    let number = Int(note.text) ?? 0
    let (failures, snoozes) = (context.failures, Int(context.run.record.progress.snoozes))
    switch TaskModel.end(number, failures: failures, snoozes: snoozes) {
    case .done: return .done
    case .fail: throw Broken()
    case .again: return .retry(after: .zero)
    case .park: return .park(wakeOn: ["signal"])
    case .snooze: return .snooze(for: .milliseconds(TaskModel.delay))
    case .discard: return .discard("discarded")
    case .complete:
      try await complete(note, context)
      // The task is done, whatever the handler does now.
      throw Broken()
    }
  }

  /// Completes a task in a transaction, which is tried again as long as it conflicts with commits of the scheduler.
  private static func complete(_ note: Note, _ context: TaskContext) async throws {
    while true {
      do {
        return try await context.complete(counting: note.text)
      } catch let error as DatabaseError where error.code == .conflict {}
    }
  }

  func run(_ count: Int) async throws {
    try await fixture.scheduler.start()
    for number in 0..<count {
      let isReopened = try await step()
      await fixture.scheduler.waitUntilIdle()
      model.committed = self.number
      model.run()
      try compareRuns()
      // A difference usually persists: so every state is compared after each reopening, and otherwise only every few
      // steps.
      if isReopened || number % 8 == 7 || number == count - 1 { try compareStates() }
    }
    try endFollower()
    try await fixture.close()
  }

  func note(_ step: TaskModelTests.Step, _ text: String) {
    counts[step, default: 0] += 1
    if step.isOperation, !isUndoing { operations += 1 }
    trace.append(text)
  }

  /// Makes one step. Returns whether a scheduler was started on the state that another one has left.
  private func step() async throws -> Bool {
    switch random.below(40) {
    case 0..<4:
      let seconds = [1, 5, 10, 30][random.below(4)]
      note(.advance, "advance \(seconds)")
      fixture.clock.advance(by: .seconds(seconds))
      model.advance(by: seconds * 1_000)
    case 4..<6:
      note(.restart, "restart")
      await fixture.scheduler.stop()
      try await startAgain(fixture.database)
      return true
    case 6..<8:
      note(.undone, "undone")
      let before = model
      isUndoing = true
      defer { isUndoing = false }
      do {
        try fixture.write { tx in
          for _ in 0...random.below(3) { try change(tx) }
          throw Undo()
        }
      } catch is Undo {}
      model = before
    case 8:
      note(.prune, "advance past the retention")
      let milliseconds = TaskModel.retention + 100_000
      fixture.clock.advance(by: .milliseconds(milliseconds))
      model.advance(by: milliseconds)
      model.prune()
    case 9..<15: return try await hold()
    default:
      try fixture.write { tx in
        for _ in 0...random.below(4) { try change(tx) }
      }
    }
    return false
  }

  func change(_ tx: WriteTransaction) throws {
    let known = model.tasks.keys.sorted()
    guard random.below(10) < 4, let chosen = known.randomElement(using: &random), let id = ids[chosen] else {
      return random.oneIn(12) ? try pause(tx) : try enqueue(tx)
    }
    switch random.below(6) {
    case 0:
      note(.cancel, "cancel \(chosen)")
      try require(try tx.cancel(.id(id)) == model.cancel(chosen), "cancel \(chosen)")
    case 1:
      note(.delete, "delete \(chosen)")
      try require(try tx.delete(.id(id)) == model.delete(chosen), "delete \(chosen)")
    case 2:
      note(.wake, "wake \(chosen)")
      try require(try tx.retryNow(.id(id)) == model.wake(chosen), "wake \(chosen)")
    case 3:
      note(.revive, "revive \(chosen)")
      if model.isTaken(chosen) {
        let refused = (try? tx.revive(.id(id))) == nil
        return try require(refused, "revive \(chosen) gives a key to two")
      }
      try require(try tx.revive(.id(id)) == model.revive(chosen), "revive \(chosen)")
    case 4: try edit(chosen, id, tx)
    default:
      note(.signal, "signal")
      let waiting = try tx.tasks.ids(WakeSignal("signal")).map { id in ids.first { $0.value == id }?.key ?? -1 }
      let woken = try tx.signal("signal")
      let parked = model.tasks.values.filter { $0.state == .parked }.map(\.number)
      try require(
        woken == parked.reduce(0) { $0 + model.wake($1) }, "signal woke \(woken) of \(parked), waiting were \(waiting)")
    }
  }

  private func edit(_ chosen: Int, _ id: TaskID, _ tx: WriteTransaction) throws {
    let isEdited: Bool
    let isExpected: Bool
    switch random.below(3) {
    case 0:
      number += 1
      let text = number
      isEdited = (try? tx.edit(id, payload: Note("\(text)"))) != nil
      isExpected = model.edit(chosen) { $0.text = text }
    case 1:
      let priority = random.below(3)
      isEdited = (try? tx.edit(id, priority: UInt8(priority))) != nil
      isExpected = model.edit(chosen) { $0.priority = priority }
    default:
      let delay = random.oneIn(2) ? 7_000 : 0
      isEdited = (try? tx.edit(id, start: delay > 0 ? .after(.milliseconds(delay)) : .now)) != nil
      isExpected = model.edit(chosen, start: delay)
    }
    note(.edit, "edit \(chosen): \(isExpected)")
    try require(isEdited == isExpected, "edit \(chosen)")
  }

  private func pause(_ tx: WriteTransaction) throws {
    let queue = Self.queues[random.below(Self.queues.count)]
    if model.paused.contains(queue) {
      note(.resume, "resume \(queue)")
      try tx.resume(QueueName(queue))
      model.paused.remove(queue)
    } else {
      note(.pause, "pause \(queue)")
      try tx.pause(QueueName(queue))
      model.paused.insert(queue)
    }
  }

  /// Returns whether a call has found its unique key taken by a task, and replaced its payload or not.
  private static func isConflict(_ result: EnqueueResult, of id: TaskID, replaces: Bool) -> Bool {
    switch result {
    case .inserted: false
    case .duplicate(let other, let state): other == id && !replaces && state?.isSettled == false
    case .replaced(let other): other == id && replaces
    }
  }

  private func enqueue(_ tx: WriteTransaction) throws {
    number += 1
    let queue = Self.queues[random.below(Self.queues.count)]
    var options = TaskOptions(queue: QueueName(queue))
    options.priority = UInt8(random.below(3))
    options.maxAttempts = random.oneIn(3) ? 1 + random.below(3) : nil
    let isPruned = random.oneIn(2)
    let retention = isPruned ? TaskModel.retention : 10_000_000_000
    if random.oneIn(4) { options.retention = .keep(.milliseconds(retention)) }
    if random.oneIn(4) { options.timeout = .seconds(3) }
    if random.oneIn(4) { options.limitKey = ["a", "b"][random.below(2)] }
    var task = TaskModel.Task(
      number: number, text: number, queue: options.limitKey.map { queue + "#" + $0 } ?? queue,
      priority: Int(options.priority), sequence: number, state: .ready, maxAttempts: options.maxAttempts ?? 0)
    task.isKept = options.retention != .deleteOnSuccess
    task.isPruned = task.isKept && isPruned
    task.timeout = options.timeout == nil ? 0 : 3_000
    if options.limitKey != nil { note(.keyed, "with key") }
    if random.oneIn(5) {
      options.start = .after(.seconds(7))
      task.state = .scheduled
      task.due = model.now + 7_000
    } else if random.oneIn(8) {
      options.start = .parked(wakeOn: ["signal"])
      task.state = .parked
    } else if random.oneIn(4) {
      addParents(&task, &options)
    }
    note(
      .enqueue, "enqueue \(number) in \(task.queue), priority \(task.priority), \(task.state), after \(task.parents)")
    if random.oneIn(5) {
      let key = "u\(random.below(3))"
      // A task that is still to be cancelled does not keep its key, but when it ends is a matter of chance.
      if model.live(key).map({ !model.isToBeCancelled($0) }) ?? true { task.key = key }
    }
    if let key = task.key {
      let replaces = random.oneIn(2)
      options.unique = Uniqueness(key: key, onConflict: replaces ? .replacePayload : .skip)
      note(.unique, "unique \(key), replaces \(replaces)")
      if let first = model.live(key) {
        let result = try tx.enqueue(Note("\(number)"), options)
        try require(
          ids[first].map { Self.isConflict(result, of: $0, replaces: replaces) } == true,
          "the key \(key) is that of task \(first): \(result)")
        if replaces { model.replace(first, number) }
        return
      }
    }
    let result = try tx.enqueue(Note("\(number)"), options)
    try require(result == .inserted(result.id), "task \(number) is new: \(result)")
    ids[number] = result.id
    model.add(task)
  }

  /// Adds parents. In a serial queue, they are of the same subqueue, whose order is known.
  ///
  /// That a parent failed before its child was enqueued is detected a moment after the commit, when another task may
  /// have begun; so this is done only if the order does not matter.
  private func addParents(_ task: inout TaskModel.Task, _ options: inout TaskOptions) {
    let known = model.tasks.values.filter {
      let isQueued = $0.queue == task.queue && $0.state != .dead && $0.state != .cancelled
      return !TaskModel.isSerial(task.queue) || isQueued
    }
    let chosen = known.map(\.number).sorted().shuffled(using: &random).prefix(1 + random.below(2))
    note(.child, "after \(chosen)")
    options.dependsOn = chosen.compactMap { ids[$0] }
    options.onParentFailure = [.stayBlocked, .cancel, .runAnyway][random.below(3)]
    task.rule = options.onParentFailure
    task.parents = Set(chosen.filter { ids[$0] != nil && model.tasks[$0]?.state != .done })
    if !task.parents.isEmpty { task.state = .blocked }
  }

  private func parents(of id: TaskID, _ tx: ReadTransaction) throws -> [Int] {
    var found: [Int] = []
    var cursor = try tx.tasks.parts.live.cursor(StorageRange(prefix: TaskKeys.parent(of: id)))
    while let (key, _) = try cursor.next() {
      let parent = try TaskKeys.id(of: key, at: 9)
      found.append(ids.first { $0.value == parent }?.key ?? -Int(parent.rawValue))
    }
    return found
  }

  func require(_ isSo: Bool, _ what: String) throws {
    if !isSo { throw Difference(description: what) }
  }

  private func compareRuns() throws {
    var log: [String: [Int]] = [:]
    let expected = model.takeLog()
    let queueOf = Dictionary(
      uniqueKeysWithValues: expected.flatMap { queue, numbers in
        Set(numbers).map { ($0, queue) }
      })
    for line in fixture.lines.take() {
      let number = Int(line) ?? 0
      log[queueOf[number] ?? "unexpected", default: []].append(number)
    }
    for queue in Set(log.keys).union(expected.keys) {
      let (found, wanted) = (log[queue] ?? [], expected[queue] ?? [])
      let isSame = TaskModel.isSerial(queue) ? found == wanted : found.sorted() == wanted.sorted()
      try require(isSame, "\(queue) ran \(found), expected \(wanted); \(try whatIsLeft(wanted))")
    }
  }

  /// Returns the states of some tasks, and what the scheduler is about to do.
  private func whatIsLeft(_ numbers: [Int]) throws -> String {
    let tasks = try fixture.read { tx in
      try numbers.map { number in
        "\(number): \(try ids[number].flatMap { try tx.task($0) }.map { "\($0.progress)" } ?? "gone")"
      }
    }
    let state = fixture.scheduler.dispatcher.state.withLock { state in
      "pumping \(state.loop.isPumping), busy \(state.running.busyCount), running \(state.running.runs.keys), "
        + "turns \(state.subqueues.turns), ahead \(state.running.ahead.claims.keys), pending \(state.parents.pending), \(state.parents.heldPending), held \(state.held), "
        + "suspect \(String(describing: state.holds.suspect)), settlements \(state.running.settlements.count), host \(state.host != nil), "
        + "lines \(state.subqueues.values.map { "\($0.id) \($0.runningCount) \(String(describing: $0.first?.state))" })"
    }
    return "\(tasks); \(state)"
  }

  /// Compares the states of all tasks, and sometimes what a follower sees of them.
  func compareStates() throws {
    try fixture.read { tx in try compareStates(tx) }
    if random.oneIn(16) { try follow() }
    // Tasks that the model has removed are not checked again.
    for number in ids.keys where model.tasks[number] == nil { ids[number] = nil }
  }

  private func follow() throws {
    note(.follow, "follow")
    let follower = try self.follower ?? Self.open(disk, follows: true)
    self.follower = follower
    try follower.read { tx in try compareStates(tx) }
    if random.oneIn(4) { try endFollower() }
  }

  func endFollower() throws {
    try follower?.close()
    follower = nil
  }

  private func compareStates(_ tx: ReadTransaction) throws {
    for (number, id) in ids {
      let task = try tx.task(id)
      guard let expected = model.tasks[number] else {
        try require(task == nil, "task \(number) is \(task.map { "\($0.progress)" } ?? ""), and should be gone")
        continue
      }
      guard let progress = task?.progress else {
        throw Difference(description: "task \(number) is gone: \(expected)")
      }
      // The head of a serial queue whose time has come is taken in its present state.
      try require(
        progress.state == expected.state && Int(progress.attempt) == expected.attempt
          && Int(progress.failures) == expected.failures && Int(progress.snoozes) == expected.snoozes
          && Int(progress.crashes) == expected.crashes,
        "task \(number) is \(progress), expected \(expected); parents left \(try parents(of: id, tx))")
    }
    for queue in Self.queues {
      for state in TaskState.allCases {
        let expected = model.tasks.values.count { TaskModel.base($0.queue) == queue && $0.state == state }
        let found = try tx.taskCount(in: QueueName(queue), state)
        try require(found == expected, "\(queue) counts \(found) tasks that are \(state), expected \(expected)")
      }
      try compareOrder(queue, tx)
    }
    let effects = try tx.keys(String.self, in: "effects")
    try require(Set(effects) == Set(model.effects.map { "\($0)" }), "\(effects) were completed")
    for key in effects {
      let count = try tx.object(Int.self, key: key, in: "effects")
      try require(count == 1, "\(key) was completed \(count ?? 0) times")
    }
  }

  /// Compares the order of the ready tasks of a queue, and of each of its limit keys.
  private func compareOrder(_ queue: String, _ tx: ReadTransaction) throws {
    var found: [String: [TaskID]] = [:]
    for task in try tx.tasks(.queue(QueueName(queue)).and(.state(.ready))) {
      found[task.limitKey.map { queue + "#" + $0 } ?? queue, default: []].append(task.id)
    }
    for line in [queue, queue + "#a", queue + "#b"] {
      let (own, expected) = (found[line] ?? [], model.order(line))
      try require(own == expected.compactMap { ids[$0] }, "\(line) has \(own) in line, expected \(expected)")
    }
  }
}
