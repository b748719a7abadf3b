import EngineTestSupport
import Foundation
import Testing
@_spi(Extensions) import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of tasks in a database from which a repair has removed rows.
struct TaskRepairTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private var path: String { directory.path + "/db" }

  private func open() throws -> TaskFixture {
    let fixture = try TaskFixture(
      Database.open(at: path, definition: DatabaseDefinition { TaskStorage.handle }), workers: 4)
    try fixture.handle { note, _ in note.text.hasPrefix("dead") ? .discard("no") : .done }
    return fixture
  }

  /// Marks the extensions as a repair does that has lost blocks of any family.
  private func repair() throws { try Database.repairDamage(after: [nil], at: path) }

  /// Closes a database, repairs it, and opens it again.
  private func reopen(_ fixture: TaskFixture) async throws -> TaskFixture {
    try await fixture.close()
    try repair()
    return try open()
  }

  // MARK: - One row

  @Test func `a task whose row by id is lost is found by its id after a repair, and can be woken and deleted`()
    async throws
  {
    var fixture = try open()
    let parked = try fixture.enqueue("parked") { $0.start = .parked(wakeOn: ["network"]) }
    let other = try fixture.enqueue("other") { $0.start = .parked(wakeOn: ["network"]) }
    try await fixture.database.commitIndependently { parts in
      let live = try TaskParts(parts).live
      for id in [parked, other] {
        try live.delete(TaskKeys.byID(id, 0))
        try live.delete(TaskKeys.signal("network", id, 0))
      }
    }
    #expect(try fixture.state(parked) == nil)
    fixture = try await reopen(fixture)
    #expect(try fixture.state(parked) == .parked)
    #expect(try fixture.write { tx in try tx.delete(.id(other)) } == 1)
    #expect(try fixture.write { tx in try tx.signal("network") } == 1)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["parked"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `a task of which only the row by id is left is gone after a repair, and is not counted`() async throws {
    var fixture = try open()
    let (lost, left) = (try fixture.enqueue("lost"), try fixture.enqueue("left"))
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      guard let (_, position) = try parts.position(of: lost) else { return }
      try parts.live.delete(position.key(of: lost))
    }
    #expect(try fixture.count(.ready) == 2)
    fixture = try await reopen(fixture)
    #expect(try fixture.count(.ready) == 1)
    #expect(try fixture.read { tx in try tx.tasks.parts.position(of: lost)?.state } == nil)
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id) } == [left])
    try await fixture.close()
  }

  @Test func `a task runs after a repair if the task that it depends on is lost, or all rows of its parents are`()
    async throws
  {
    var fixture = try open()
    let parent = try fixture.enqueue("parent") { $0.start = .parked() }
    let other = try fixture.enqueue("other") { $0.start = .parked() }
    try fixture.enqueue("first") { $0.dependsOn = [parent] }
    let second = try fixture.enqueue("second") { $0.dependsOn = [other] }
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      guard let record = try parts.record(parent) else { return }
      for key in [record.position.key(of: parent), TaskKeys.byID(parent, 0)] { try parts.live.delete(key) }
      for id in [parent, other] { try parts.config.delete(ConfigKeys.pending(id)) }
      try parts.live.delete(TaskKeys.child(of: other, second))
      try parts.live.delete(TaskKeys.parent(of: second, other))
    }
    fixture = try await reopen(fixture)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["first", "second"])
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.id) } == [other])
    try await fixture.close()
  }

  @Test func `tasks of a queue whose name is lost are in a recovered queue, and no number is assigned again`()
    async throws
  {
    var fixture = try open()
    let id = try fixture.enqueue("task") { $0.queue = "images" }
    let number = try #require(try fixture.read { tx in try tx.tasks.queue("images")?.number })
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      for key in [TaskNames.key("images"), TaskNames.next] { try parts.config.delete(key) }
      for key in [TaskNumbers.id, TaskNumbers.start] { try parts.numbers.delete(key) }
    }
    fixture = try await reopen(fixture)
    #expect(try fixture.read { tx in try tx.taskQueues() } == [QueueName("recovered-\(number)")])
    #expect(try fixture.read { tx in try tx.task(id)?.queue } == QueueName("recovered-\(number)"))
    let new = try fixture.enqueue("new") { $0.queue = "images" }
    #expect(new > id)
    let newNumber = try #require(try fixture.read { tx in try tx.tasks.queue("images")?.number })
    #expect(newNumber > number)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take().sorted() == ["new", "task"])
    try await fixture.close()
  }

  @Test func `of two rows of a task the later one stays after a repair, because the deletion of the other was lost`()
    async throws
  {
    var fixture = try open()
    let id = try fixture.enqueue("moved") { $0.start = .parked() }
    let old = try #require(try fixture.read { tx in try tx.tasks.parts.record(id) })
    #expect(try fixture.write { tx in try tx.retryNow(.id(id)) } == 1)
    try await fixture.database.commitIndependently { parts in
      let live = try TaskParts(parts).live
      try live.put(old.position.key(of: id), old.bytes)
      try live.put(TaskKeys.byID(id, 0), TaskKeys.byIDValue(.parked, old.position))
    }
    fixture = try await reopen(fixture)
    #expect(try fixture.read { tx in try tx.tasks(.all).map(\.progress.state) } == [.ready])
    #expect(try fixture.count(.parked) == 0)
    #expect(try fixture.count(.ready) == 1)
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["moved"])
    try fixture.expectNothingLeft()
    try await fixture.close()
  }

  @Test func `a repair gives more tasks than one step reads their rows by id again`() async throws {
    var fixture = try open()
    let count = 2 * TaskRepair.chunkMaximum + 100
    try fixture.write { tx in
      for number in 0..<count { try tx.enqueue(Note("\(number)")) }
    }
    try await fixture.database.commitIndependently { parts in
      let live = try TaskParts(parts).live
      var keys: [[UInt8]] = []
      var cursor = try live.cursor(StorageRange(prefix: [TaskKeys.byID]), keysOnly: true)
      while let (key, _) = try cursor.next() { keys.append(key) }
      for key in keys { try live.delete(key) }
    }
    fixture = try await reopen(fixture)
    #expect(try fixture.count(.ready) == count)
    #expect(try fixture.write { tx in try tx.delete(.all) } == count)
    #expect(try fixture.rowCount() == 0)
    try await fixture.close()
  }

  @Test func `a repair of tasks without damage changes no row`() async throws {
    var fixture = try open()
    fixture = try await fill(fixture)
    let before = try Self.rows(fixture)
    fixture = try await reopen(fixture)
    let after = try Self.rows(fixture)
    for (name, rows) in before {
      // A row that asks for the end of a task to be looked up may be written again.
      func isCompared(_ key: [UInt8]) -> Bool { name != "config" || key.first != ConfigKeys.pending }
      #expect(after[name]?.filter { isCompared($0.key) } == rows.filter { isCompared($0.key) }, "\(name)")
    }
    try await fixture.close()
  }

  // MARK: - Random rows

  @Test func `tasks are consistent after a repair, whatever rows were lost, and all that are left run to their end`()
    async throws
  {
    let seedCount = UInt64(TestScale.count(12))
    print("task repair: seeds 1 to \(seedCount)")
    for seed in 1...seedCount {
      let run = try TaskRepairTests()
      do { try await run.loseRows(seed) } catch { Issue.record(error, "seed \(seed)") }
    }
  }

  private func loseRows(_ seed: UInt64) async throws {
    var fixture = try open()
    fixture = try await fill(fixture)
    let rate = 2 + Int(seed % 8)
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      var random = SeededRandom(seed: seed)
      for part in [parts.live, parts.config, parts.ended, parts.counts, parts.numbers] {
        var keys: [[UInt8]] = []
        var cursor = try part.cursor(keysOnly: true)
        while let (key, _) = try cursor.next() { if random.oneIn(rate) { keys.append(key) } }
        for key in keys { try part.delete(key) }
      }
    }
    fixture = try await reopen(fixture)
    try Self.expectConsistent(fixture, "seed \(seed)")
    try await expectAllRun(fixture, "seed \(seed)")
    try await fixture.close()
  }

  /// Runs all tasks to their end. Those that are dead or cancelled are revived, because others may wait for them.
  private func expectAllRun(_ fixture: TaskFixture, _ comment: Comment) async throws {
    try await fixture.scheduler.start()
    var rounds = 0
    while rounds < 50 {
      await fixture.scheduler.waitUntilIdle()
      if try fixture.rowCount() == 0 { break }
      try fixture.write { tx in
        try tx.retryNow(.all)
        for task in try tx.tasks(.state(.dead, .cancelled)) where !task.payload.isEmpty {
          guard let text = try? JSONDecoder().decode(Note.self, from: Data(task.payload)).text else { continue }
          if text.hasPrefix("dead") { try tx.delete(.id(task.id)) } else { _ = try? tx.revive(.id(task.id)) }
        }
      }
      fixture.clock.advance(by: .seconds(86_400))
      rounds += 1
    }
    #expect(try fixture.rowCount() == 0, comment)
    #expect(try fixture.configCount(ConfigKeys.pending) == 0, comment)
    #expect(try fixture.configCount(ConfigKeys.progress) == 0, comment)
    let open = try fixture.read { tx in try tx.tasks(.all).filter { !$0.progress.state.isSettled }.map(\.id) }
    #expect(open.isEmpty, comment)
    try Self.expectCounts(fixture, comment)
  }

  // MARK: - Content

  /// Adds tasks in all states. Returns the fixture that has the database open at the end, whose scheduler was not
  /// started.
  private func fill(_ fixture: TaskFixture) async throws -> TaskFixture {
    // Tasks that have ended.
    for number in 0..<6 {
      try fixture.enqueue("done \(number)") {
        $0.retention = number % 2 == 0 ? .keep(.seconds(10_000_000)) : .keepCount(10)
      }
      try fixture.enqueue("dead \(number)") { $0.queue = "other" }
    }
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    try await fixture.close()
    let fixture = try open()
    let dead = try fixture.read { tx in try tx.tasks(.state(.dead)).map(\.id) }
    var ids: [TaskID] = []
    for number in 0..<8 {
      ids.append(try fixture.enqueue("ready \(number)") { $0.priority = UInt8(100 + number) })
      ids.append(try fixture.enqueue("keyed \(number)") { $0.limitKey = "\(number % 2)" })
      ids.append(try fixture.enqueue("delayed \(number)") { $0.start = .after(.seconds(100 + number)) })
      ids.append(try fixture.enqueue("parked \(number)") { $0.start = .parked(wakeOn: ["a", "b"]) })
      ids.append(
        try fixture.enqueue("unique \(number)") {
          $0.unique = Uniqueness(key: "\(number)")
          $0.queue = "unique"
        })
      let parents = [ids[5 * number], ids[5 * number + 2]]
      let child = try fixture.enqueue("child \(number)") { $0.dependsOn = parents }
      try fixture.enqueue("grandchild \(number)") {
        $0.dependsOn = [child]
        $0.onParentFailure = number % 2 == 0 ? .cancel : .runAnyway
      }
      try fixture.write { tx in
        try tx.enqueueGroup(Note("group \(number)"), TaskOptions(queue: "groups")) { group in
          for member in 0..<3 {
            var options = TaskOptions(queue: "groups")
            options.group = group
            try tx.enqueue(Note("member \(number) \(member)"), options)
          }
        }
      }
    }
    try fixture.enqueue("waits for dead") { $0.dependsOn = Array(dead.prefix(2)) }
    let cancelled = try fixture.enqueue("cancelled") { $0.retention = .keep(.seconds(10_000_000)) }
    try fixture.enqueue("waits for cancelled") { $0.dependsOn = [cancelled] }
    try fixture.write { tx in try tx.cancel(.id(cancelled)) }
    // Tasks that were running when the process died, one of which must be cancelled.
    let running = [ids[0], ids[5], ids[10], ids[4]]
    try await fixture.database.claimAndDie(running)
    try await fixture.database.commitIndependently { parts in
      let parts = try TaskParts(parts)
      for id in running {
        try parts.live.put(TaskKeys.step(id, 1), [1])
        try parts.config.put(ConfigKeys.progress(id), HandlerProgress(0.5, nil).bytes)
      }
      try parts.live.put(TaskKeys.cancel(running[1]), [])
    }
    return fixture
  }

  /// Returns all rows of the parts that a repair changes.
  private static func rows(_ fixture: TaskFixture) throws -> [String: [[UInt8]: [UInt8]]] {
    try fixture.read { tx in
      let parts = try tx.tasks.parts
      var rows: [String: [[UInt8]: [UInt8]]] = [:]
      for (name, part) in [
        ("live", parts.live), ("config", parts.config), ("ended", parts.ended), ("counts", parts.counts),
      ] {
        var cursor = try part.cursor()
        while let (key, value) = try cursor.next() {
          // A count that has come back to zero is as good as none.
          if name == "counts", value.allSatisfy({ $0 == 0 }) { continue }
          rows[name, default: [:]][key] = value
        }
      }
      return rows
    }
  }

  private static func expectCounts(_ fixture: TaskFixture, _ comment: Comment) throws {
    // A write does not look at claims, so that each task has the state in which it is counted.
    try fixture.write { tx in
      var expected: [QueueName: [TaskState: Int]] = [:]
      for task in try tx.tasks(.all) { expected[task.queue, default: [:]][task.progress.state, default: 0] += 1 }
      for queue in try tx.taskQueues() {
        for state in TaskState.allCases {
          #expect(try tx.taskCount(in: queue, state) == expected[queue]?[state] ?? 0, comment)
        }
      }
      #expect(try Set(expected.keys).isSubset(of: tx.taskQueues()), comment)
    }
  }

  private static func expectConsistent(_ fixture: TaskFixture, _ comment: Comment) throws {
    try expectCounts(fixture, comment)
    try fixture.write { tx in
      let parts = try tx.tasks.parts.unchecked
      let all = try tx.tasks(.all)
      #expect(Set(all.map(\.id)).count == all.count, comment)
      for task in all { #expect(try tx.task(task.id) == task, comment) }
      let open = Set(all.map(\.id)).subtracting(try tx.tasks.endedIDs(parts))
      func each(_ part: Part, _ tag: UInt8, _ body: ([UInt8], [UInt8]) throws -> Void) throws {
        var cursor = try part.cursor(StorageRange(prefix: [tag]))
        while let (key, value) = try cursor.next() { try body(key, value) }
      }
      try each(parts.live, TaskKeys.byID) { key, _ throws in
        #expect(try open.contains(TaskKeys.id(of: key, at: 1)), comment)
      }
      try each(parts.live, TaskKeys.claim) { key, _ throws in
        #expect(try open.contains(TaskKeys.id(of: key, at: 5)), comment)
      }
      try each(parts.live, TaskKeys.signal) { key, _ throws in
        #expect(try open.contains(TaskKeys.id(of: key, at: 9)), comment)
      }
      for tag in [TaskKeys.cancel, TaskKeys.step] {
        try each(parts.live, tag) { key, _ throws in #expect(try open.contains(TaskKeys.id(of: key, at: 1)), comment) }
      }
      try each(parts.config, ConfigKeys.progress) { key, _ throws in
        #expect(try open.contains(TaskKeys.id(of: key, at: 1)), comment)
      }
      try each(parts.config, ConfigKeys.unique) { _, value throws in
        #expect(try open.contains(ConfigKeys.unique(value).id), comment)
      }
      try each(parts.live, TaskKeys.children) { key, _ throws in
        let (parent, child) = (try TaskKeys.id(of: key, at: 1), try TaskKeys.id(of: key, at: 9))
        #expect(try parts.position(of: child)?.state == .blocked, comment)
        #expect(try parts.live.get(TaskKeys.parent(of: child, parent)) != nil, comment)
        // A scheduler applies the end of a task that does not exist.
        let isPending = try parts.config.get(ConfigKeys.pending(parent)) != nil
        #expect(open.contains(parent) || isPending, comment)
      }
      try each(parts.live, TaskKeys.parents) { key, _ throws in
        let (child, parent) = (try TaskKeys.id(of: key, at: 1), try TaskKeys.id(of: key, at: 9))
        #expect(try parts.live.get(TaskKeys.child(of: parent, child)) != nil, comment)
      }
      for task in all where task.progress.state == .blocked {
        #expect(try parts.live.first(in: StorageRange(prefix: TaskKeys.parent(of: task.id))) != nil, comment)
        guard let group = try tx.taskGroup(task.id) else { continue }
        let members = try tx.tasks(.group(task.id)).filter { !$0.progress.state.isSettled }
        #expect(group.pending == members.count, comment)
      }
    }
    let largest = try fixture.read { tx in try tx.tasks(.all).map(\.id).max() }
    let new = try fixture.enqueue("new") { $0.queue = "a new queue" }
    #expect(largest.map { $0 < new } ?? true, comment)
    let numbers = try fixture.read { tx in try TaskNames(tx.tasks.config).queues.values.map(\.number) }
    #expect(Set(numbers).count == numbers.count, comment)
  }
}

extension TaskStorageTransaction {
  /// Returns the ids of the tasks that have ended and are kept.
  fileprivate func endedIDs(_ parts: TaskParts) throws -> Set<TaskID> {
    var ids: Set<TaskID> = []
    var cursor = try parts.ended.cursor(StorageRange(prefix: EndedKeys.byIDPrefix), keysOnly: true)
    while let (key, _) = try cursor.next() { ids.insert(try TaskKeys.id(of: key, at: 1)) }
    return ids
  }
}
