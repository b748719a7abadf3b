import Foundation
import Testing
import Varve
import VarveTasks

/// Tests of `varve tasks` as a script sees it.
struct TasksCommandTests {
  private struct Mail: TaskPayload {
    static let kind = "mail"
    var to: String
  }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }
  private let ids: [TaskID]

  private static func options(_ queue: QueueName, _ change: (inout TaskOptions) -> Void = { _ in }) -> TaskOptions {
    var options = TaskOptions(queue: queue)
    change(&options)
    return options
  }

  init() throws {
    let path = directory.path + "/db"
    let database = try Database.open(at: path) { TaskStorage.handle }
    ids = try database.write { tx in
      [
        try tx.enqueue(Mail(to: "a"), Self.options("out") { $0.tags = ["x"] }).id,
        try tx.enqueue(Mail(to: "b"), Self.options("out") { $0.start = .after(.seconds(3_600)) }).id,
        try tx.enqueue(Mail(to: "c"), Self.options("in") { $0.start = .parked(wakeOn: ["network"]) }).id,
      ]
    }
    try database.close()
  }

  private func lines(_ arguments: String...) throws -> [String] {
    try Tool.good(["tasks"] + arguments).split(separator: "\n").map(String.init)
  }

  @Test func `queues are listed with their counts and states, and can be paused, resumed and drained`() throws {
    #expect(try lines("pause", database, "out") == ["paused"])
    let table = try lines("queues", database)
    #expect(table.count == 3 && table[0].hasPrefix("queue  rules"))
    let states = table[0].split(separator: " ").dropFirst(2).map(String.init)
    #expect(states == TaskState.allCases.map { "\($0)" })
    let rows = try Tool.objects(["tasks", "queues", database, "--json"])
    #expect(rows.count == 2 && rows[1]["queue"] as? String == "out" && rows[1]["isPaused"] as? Bool == true)
    #expect((rows[1]["counts"] as? [String: Int])?["ready"] == 1)
    #expect((rows[1]["counts"] as? [String: Int])?["running"] == 0)
    #expect((rows[0]["counts"] as? [String: Int])?["parked"] == 1)
    #expect(try lines("resume", database, "out") == ["resumed"])
    #expect(try lines("drain", database, "in") == ["draining"])
    #expect(try Tool.objects(["tasks", "queues", database, "--json"])[0]["isDraining"] as? Bool == true)
    #expect(try lines("queues", database, "--watch", "--interval", "0.1", "--outputs", "2", "--json").count == 4)
  }

  private struct Colored: TaskPayload { static let kind = "\u{1b}[31mred\tkind" }

  @Test func `no name of a task, a schedule or an event reaches the terminal with its control characters`()
    async throws
  {
    let path = directory.path + "/colored"
    let database = try await Database.open(at: path) { TaskStorage.handle }
    let scheduler = try TaskScheduler(database)
    try scheduler.register(Colored.self) { _, _ in .discard("no") }
    let name = "\u{1b}[32mgreen"
    try scheduler.schedule(name, "@daily", options: TaskOptions(queue: QueueName(name))) { _ in Colored() }
    try await scheduler.start()
    let (dead, parked) = try await database.write { tx in
      var options = TaskOptions(queue: QueueName(name))
      options.start = .parked(wakeOn: [WakeSignal(name)])
      options.tags = [name, "tag\n"]
      options.limitKey = name
      return (try tx.enqueue(Colored()).id, try tx.enqueue(Colored(), options).id)
    }
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await database.close()
    let outputs = [
      ["queues", path], ["list", path], ["show", path, "\(dead)"], ["show", path, "\(parked)"], ["events", path],
      ["cron", path],
    ]
    for arguments in outputs {
      let output = try Tool.good(["tasks"] + arguments)
      #expect(!output.unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" && $0 != "\t" }, "\(arguments[0])")
      #expect(output.contains("\\x1b[3"), "\(arguments[0])")
    }
    let shown = try lines("show", path, "\(parked)")
    #expect(shown.contains("kind      \\x1b[31mred\\x09kind, version 1"))
    #expect(shown.contains("tags      \\x1b[32mgreen, tag\\x0a"))
    #expect(shown.contains("signals   \\x1b[32mgreen") && shown.contains("limit key \\x1b[32mgreen"))
  }

  @Test func `tasks are listed by queue, state, kind and tag, and shown with all their details`() throws {
    #expect(try lines("list", database).count == 4)
    let list = try lines("list", database, "--queue", "out", "--state", "ready")
    #expect(list.count == 2 && list[0].hasPrefix("task\tstate\tqueue\tkind") && list[0].contains("\tprogress\t"))
    #expect(list[1].hasPrefix("\(ids[0])\tready\tout\tmail"))
    #expect(list.allSatisfy { $0.split(separator: "\t").count == 8 })
    #expect(try lines("list", database, "--tag", "x", "--count") == ["1"])
    #expect(try lines("list", database, "--kind", "other", "--count") == ["0"])
    let shown = try lines("show", database, "\(ids[2])")
    #expect(shown.contains("state     parked") && shown.contains("signals   network"))
    #expect(shown.contains("payload   {\"to\":\"c\"}"))
    #expect(shown.contains("waits for the signal \"network\""))
    #expect(shown.contains { $0.hasPrefix("attempts  0 of 25, ") })
    #expect(try lines("show", database, "\(ids[0])").contains { $0.hasPrefix("waits for its turn, ") })
    let row = try #require(try Tool.objects(["tasks", "show", database, "\(ids[1])", "--json"]).first)
    #expect(row["state"] as? String == "scheduled" && row["due"] is String)
    #expect((row["waitsFor"] as? [String])?.count == 1 && row["isUnique"] as? Bool == false)
    #expect(try Tool.run(["tasks", "show", database, "99"]).status == 1)
    #expect(try Tool.run(["tasks", "list", database, "--state", "lost"]).status == 2)
    #expect(try Tool.run(["tasks", "list", directory.path + "/none"]).status == 3)
  }

  @Test func `a list of tasks is printed at each interval, with its limit and count`() throws {
    let list = ["tasks", "list", database, "--queue", "out"]
    let twice = list + ["--watch", "--interval", "0.1", "--outputs", "2"]
    let once = try Tool.good(list)
    // Where the output is not a terminal, each one ends with an empty line.
    #expect(try Tool.good(twice) == once + "\n" + once + "\n")
    let found = try Tool.objects(list + ["--json"]).compactMap { $0["id"] as? UInt64 }
    #expect(found.sorted() == [ids[0].rawValue, ids[1].rawValue])
    #expect(try Tool.objects(twice + ["--json"]).compactMap { $0["id"] as? UInt64 } == found + found)
    #expect(try Tool.good(twice + ["--limit", "1", "--count"]) == "1\n\n1\n\n")
    #expect(try Tool.good(twice + ["--count", "--json"]) == "{\"count\":2}\n{\"count\":2}\n")
    for wrong in [["--interval", "0"], ["--interval", "x"], ["--outputs", "0"], ["--limit", "-1"]] {
      #expect(try Tool.run(list + ["--watch"] + wrong).status == 2, "\(wrong)")
    }
  }

  @Test func `each output of a list that is watched has the tasks that are there by then`() throws {
    let process = Process()
    process.executableURL = Tool.built("varve")
    // If the change is never seen, the command ends by itself.
    process.arguments = [
      "tasks", "list", database, "--state", "ready", "--count", "--json", "--watch", "--interval", "0.1", "--outputs",
      "300",
    ]
    let pipe = Pipe()
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = pipe
    try process.run()
    defer {
      process.terminate()
      process.waitUntilExit()
    }
    var text = ""
    func readUntil(_ line: String) -> Bool {
      while !text.contains(line) {
        let data = pipe.fileHandleForReading.availableData
        if data.isEmpty { return false }
        text += String(decoding: data, as: UTF8.self)
      }
      return true
    }
    #expect(readUntil("{\"count\":1}\n"))
    #expect(!text.contains("{\"count\":0}"))
    #expect(try lines("cancel", database, "--id", "\(ids[0])") == ["1 cancelled"])
    #expect(readUntil("{\"count\":0}\n"))
  }

  @Test func `events are listed with all their fields, from a number on and up to a limit`() async throws {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    let scheduler = try TaskScheduler(open)
    try scheduler.register(Mail.self) { mail, _ in .discard("no such address: \(mail.to)") }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    let parked = ids[2]
    #expect(try await open.write { tx in try tx.retryNow(.id(parked)) } == 1)
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await open.close()
    let rows = try Tool.objects(["tasks", "events", database, "--json"])
    #expect(rows.map { $0["number"] as? Int } == [1, 2])
    #expect(rows.map { $0["event"] as? String } == ["dead", "dead"])
    #expect(rows.map { $0["task"] as? UInt64 } == [ids[0].rawValue, ids[2].rawValue])
    #expect(rows.map { $0["kind"] as? String } == ["mail", "mail"])
    #expect(rows.map { $0["queue"] as? String } == ["out", "in"])
    #expect(rows.map { $0["attempt"] as? Int } == [1, 1])
    #expect(rows.map { $0["detail"] as? String } == ["no such address: a", "no such address: c"])
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    for row in rows { #expect((row["date"] as? String).map { (try? Date($0, strategy: style)) != nil } == true) }
    func numbers(_ arguments: String...) throws -> [Int] {
      try Tool.objects(["tasks", "events", database, "--json"] + arguments).compactMap { $0["number"] as? Int }
    }
    #expect(try numbers("--after", "1") == [2])
    #expect(try numbers("--after", "2") == [])
    #expect(try numbers("--limit", "1") == [1])
    #expect(try numbers("--limit", "1", "--after", "1") == [2])
    #expect(try numbers("--limit", "0") == [])
    #expect(try Tool.run(["tasks", "events", database, "--limit", "-1"]).status == 2)
    let text = try lines("events", database)
    #expect(text.count == 2 && text[0].hasPrefix("1\t") && text[0].hasSuffix("\t\"no such address: a\""))
    // The events of one task are part of what is shown of it.
    let shown = try #require(try Tool.objects(["tasks", "show", database, "\(ids[2])", "--json"]).first)
    #expect((shown["events"] as? [[String: Any]])?.map { $0["number"] as? Int } == [2])
  }

  @Test func `tasks are retried, cancelled and purged directly if no process has the database open`() throws {
    #expect(try Tool.run(["tasks", "retry", database]).status == 2)
    #expect(try lines("retry", database, "--state", "parked") == ["1 retried"])
    #expect(try lines("list", database, "--state", "ready", "--count") == ["2"])
    #expect(try lines("cancel", database, "--id", "\(ids[0])") == ["1 cancelled"])
    #expect(try lines("purge", database, "--queue", "out") == ["0 deleted"])
    #expect(try lines("purge", database, "--queue", "out", "--state", "scheduled") == ["1 deleted"])
    #expect(try lines("list", database, "--count") == ["1"])
  }

  @Test func `a database that a process has open is read directly, and changed through its inbox`() async throws {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    let scheduler = try TaskScheduler(open)
    try scheduler.schedule("nightly", "0 3 * * *", in: .gmt) { _ in Mail(to: "night") }
    try scheduler.register(Mail.self, on: .named("in")) { mail, _ in .discard("no such address: \(mail.to)") }
    try await scheduler.start()
    #expect(try lines("list", database, "--queue", "in", "--state", "parked", "--count") == ["1"])
    let sent = "sent to the inbox: the process that runs the tasks makes the change"
    #expect(try lines("retry", database, "--queue", "in") == [sent])
    let id = ids[2]
    while try await open.read({ tx in try tx.task(id)?.progress.state }) != .dead { await Task.yield() }
    let shown = try lines("show", database, "\(id)")
    #expect(shown.contains("error     \"no such address: c\""))
    #expect(shown.contains { $0.hasPrefix("event") && $0.contains("\tdead\t") })
    #expect(try lines("events", database).count == 1)
    let schedules = try Tool.objects(["tasks", "cron", database, "--next", "3", "--json"])
    #expect((schedules.first?["next"] as? [String])?.count == 3)
    #expect((schedules.first?["next"] as? [String])?.allSatisfy { $0.contains("T03:00:00") } == true)
    await scheduler.stop()
    try await open.close()
    // The directory of the inbox belongs to the database.
    #expect(try Tool.run(["verify", database]).status == 0)
  }

  @Test func `every change of tasks and queues reaches the process that has the database open`() async throws {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    let scheduler = try TaskScheduler(open)
    try await scheduler.start()
    func state(_ id: TaskID) async throws -> TaskState? {
      try await open.read { tx in try tx.task(id)?.progress.state }
    }
    func queue(_ name: QueueName) async throws -> (isPaused: Bool, isDraining: Bool) {
      try await open.read { tx in try tx.taskQueueState(name) }
    }
    let sent = "{\"sent\":true}"
    #expect(try lines("pause", database, "out", "--json") == [sent])
    while try await !queue("out").isPaused { await Task.yield() }
    #expect(try lines("drain", database, "in", "--json") == [sent])
    while try await !queue("in").isDraining { await Task.yield() }
    #expect(try lines("resume", database, "out", "--json") == [sent])
    while try await queue("out").isPaused { await Task.yield() }
    #expect(try lines("cancel", database, "--tag", "x", "--json") == [sent])
    while try await state(ids[0]) != nil { await Task.yield() }
    #expect(try lines("purge", database, "--id", "\(ids[1])", "--json") == [sent])
    while try await state(ids[1]) != nil { await Task.yield() }
    #expect(try await state(ids[2]) == .parked)
    let rows = try Tool.objects(["tasks", "list", database, "--json"])
    #expect(rows.count == 1 && rows[0]["state"] as? String == "parked" && rows[0]["queue"] as? String == "in")
    await scheduler.stop()
    try await open.close()
  }

  @Test func `release reports whether the tasks of the database were held`() throws {
    #expect(try lines("release", database) == ["not released: the tasks of this database are not held"])
    #expect(try lines("release", database, "--json") == ["{\"released\":false}"])
    let copy = directory.path + "/copy"
    try Tool.good(["checkpoint", database, copy])
    #expect(try lines("release", copy) == ["released"])
    #expect(try lines("release", copy, "--json") == ["{\"released\":false}"])
  }

  @Test func `a scheduler opens a database that was repaired, and finds its tasks`() throws {
    try Data("damaged".utf8).write(to: URL(fileURLWithPath: database + "/CURRENT"))
    #expect(try Tool.run(["repair", database]).status <= 1)
    let repaired = try Database.open(at: database) {}
    _ = try TaskScheduler(repaired)
    #expect(try repaired.read { tx in try tx.tasks(.all).count } == 3)
    try repaired.close()
  }

  @Test func `a scheduler opens a database that a program without tasks has changed, and waits for its extension`()
    throws
  {
    let plain = try Database.open(at: database) {}
    try plain.write { tx in try tx.set("text", key: 1, in: "notes") }
    try plain.close()
    let open = try Database.open(at: database) {}
    _ = try TaskScheduler(open)
    #expect(try open.read { tx in try tx.tasks(.all).count } == 3)
    try open.close()
  }

  /// Makes a database with many tasks, and damages the first block of the table with their rows, which has rows by id.
  private func makeDamaged() throws -> (path: String, count: Int) {
    let (path, count) = (directory.path + "/damaged", 600)
    let open = try Database.open(at: path) { TaskStorage.handle }
    try open.write { tx in
      for number in 0..<count {
        try tx.enqueue(
          Mail(to: String(repeating: "\(number) ", count: 40)),
          Self.options("in") { if number % 2 == 0 { $0.start = .parked() } })
      }
    }
    try open.close()
    try Tool.good(["compact", path])
    let tables = try FileManager.default.contentsOfDirectory(atPath: path).filter { $0.hasSuffix(".sst") }
    let sized = try tables.map { name in
      (size: try Data(contentsOf: URL(fileURLWithPath: path + "/" + name)).count, name: name)
    }
    let table = try #require(sized.max { $0.size < $1.size })
    let file = URL(fileURLWithPath: path + "/" + table.name)
    var bytes = try Data(contentsOf: file)
    for offset in 20..<40 { bytes[offset] ^= 0x5A }
    try bytes.write(to: file)
    return (path, count)
  }

  /// Expects each task that a query finds to be found by its id and to be counted.
  private static func expectConsistent(_ tx: ReadTransaction) throws {
    let all = try tx.tasks(.all)
    for task in all { #expect(try tx.task(task.id) == task) }
    for state in TaskState.allCases {
      #expect(try tx.taskCount(in: "in", state) == all.count { $0.progress.state == state }, "\(state)")
    }
  }

  @Test func `tasks of a repaired database are found by their ids, and can be listed, woken and deleted`() throws {
    let (path, count) = try makeDamaged()
    let broken = try Database.open(at: path) { TaskStorage.handle }
    #expect(throws: DatabaseError.self) {
      for id in 1...count { _ = try broken.read { tx in try tx.task(TaskID(rawValue: UInt64(id))) } }
    }
    try broken.close()
    let repaired = try Tool.run(["repair", path])
    #expect(repaired.status == 1 && repaired.output.contains("lost: "), "\(repaired)")
    #expect(try lines("list", path, "--count") == ["\(count)"])
    let open = try Database.open(at: path) { TaskStorage.handle }
    try open.read { tx in try Self.expectConsistent(tx) }
    #expect(try open.write { tx in try tx.retryNow(.state(.parked)) } == count / 2)
    #expect(try open.write { tx in try tx.delete(.all) } == count)
    try open.close()
  }

  @Test
  func `the tool says what to do with tasks of a database whose blocks were given up, and a change corrects them`()
    throws
  {
    let (path, count) = try makeDamaged()
    #expect(try Database.giveUpDamagedBlocks(at: path).staleExtensions == ["tasks"])
    let refused = try Tool.run(["tasks", "queues", path])
    #expect(
      refused.status == 3 && refused.errors.contains("open it once with the program that runs them"), "\(refused)")
    #expect(try lines("pause", path, "in") == ["paused"])
    #expect(try lines("list", path, "--count") == ["\(count)"])
    let open = try Database.open(at: path) { TaskStorage.handle }
    try open.read { tx in try Self.expectConsistent(tx) }
    try open.close()
  }

  @Test func `a missing database is an error that names its path, and no option of the engine`() throws {
    let path = directory.path + "/none"
    for command in [["tasks", "list", path], ["tasks", "pause", path, "in"], ["get", path, "key"]] {
      let result = try Tool.run(command)
      #expect(result.status == 3 && result.errors == "varve: no database exists at \"\(path)\"\n", "\(result)")
    }
  }

  @Test func `a serial queue whose first task is dead is listed as blocked by it`() async throws {
    let open = try await Database.open(at: database) { TaskStorage.handle }
    var configuration = TaskScheduler.Configuration()
    configuration.queues = [.all: QueueRules(order: .serial())]
    let scheduler = try TaskScheduler(open, configuration: configuration)
    try scheduler.register(Mail.self) { mail, _ in .discard("no such address: \(mail.to)") }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    await scheduler.stop()
    try await open.close()
    let rows = try Tool.objects(["tasks", "queues", database, "--json"])
    #expect(rows[1]["blockedBy"] as? [UInt64] == [ids[0].rawValue])
    #expect(try lines("queues", database).contains { $0.contains("blocked by task \(ids[0])") })
  }

  @Test func `listing the queues of a database without tasks is an error`() throws {
    let path = directory.path + "/plain"
    try Database.open(at: path).close()
    let result = try Tool.run(["tasks", "queues", path])
    #expect(result.status == 1 && result.errors.contains("has no tasks"))
  }
}
