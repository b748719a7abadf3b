import Foundation
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of options that can't be used, of values that are too large, and of times at the ends of the calendar.
struct OptionTests {
  private struct Unnamed: TaskPayload { static let kind = "" }
  private struct LongName: TaskPayload {
    static let kind = String(repeating: "k", count: TaskLimits.kindSize + 1)
  }
  private struct LongestName: TaskPayload {
    static let kind = String(repeating: "k", count: TaskLimits.kindSize)
  }

  private static func text(_ count: Int) -> String { String(repeating: "x", count: count) }

  @Test func `a value that is too large is refused by an error with its size and its limit`() throws {
    let fixture = try TaskFixture()
    let parent = try fixture.enqueue("parent")
    func check(
      _ what: String, _ limit: Int, unit: String = "bytes", _ change: @escaping (inout TaskOptions, Int) -> Void
    ) throws {
      try fixture.enqueue("fits") { change(&$0, limit) }
      #expect(throws: TaskError.tooLarge(what: what, size: limit + 1, limit: limit, unit: unit)) {
        try fixture.enqueue("large") { change(&$0, limit + 1) }
      }
    }
    try check("the name of a queue", 255) { $0.queue = QueueName(Self.text($1)) }
    try check("a sort key", 255) { $0.sortKey = SortKey(Self.text($1)) }
    try check("a limit key", 255) { $0.limitKey = Self.text($1) }
    try check("the key of a unique task", 1_024) { $0.unique = Uniqueness(key: Self.text($1)) }
    try check("a task's headers", 4_096) { $0.headers = ["name": Self.text($1 - 4)] }
    try check("a task", 1_000, unit: "signals that wake it") { options, count in
      options.start = .parked(wakeOn: Set((0..<count).map { WakeSignal("\($0)") }))
    }
    try check("a task", 16, unit: "tags") { options, count in options.tags = (0..<count).map { "\($0)" } }
    try check("a tag", 64) { $0.tags = [Self.text($1)] }
    try check("a signal", 255) { $0.start = .parked(wakeOn: [WakeSignal(Self.text($1))]) }
    try check("a task", 1_000, unit: "tasks that it depends on") {
      $0.dependsOn = Array(repeating: parent, count: $1)
    }
    let errors = [
      TaskError.tooLarge(what: "a tag", size: 65, limit: 64),
      .tooLarge(what: "a task", size: 17, limit: 16, unit: "tags"),
    ]
    #expect(
      errors.map(\.description) == [
        "a tag has 65 bytes, and may have 64 at most", "a task has 17 tags, and may have 16 at most",
      ])
    #expect(try fixture.taskCount() == 11)
  }

  @Test func `a kind or a payload that is too large is refused, and so is a kind without a name`() throws {
    let fixture = try TaskFixture()
    try fixture.write { tx in
      try tx.enqueue(LongestName())
      #expect(throws: TaskError.tooLarge(what: "the kind of a payload", size: 256, limit: 255)) {
        try tx.enqueue(LongName())
      }
      #expect(throws: TaskError.invalidValue("the kind of a payload is empty")) { try tx.enqueue(Unnamed()) }
    }
    let limit = TaskLimits.payloadSize
    let overhead = try Note("").encoded().count
    let rest = limit - overhead
    let id = try fixture.enqueue(Self.text(rest))
    #expect(try fixture.read { tx in try tx.task(id) }?.payload.count == limit)
    #expect(throws: TaskError.tooLarge(what: "a payload", size: limit + 1, limit: limit)) {
      try fixture.enqueue(Self.text(rest + 1))
    }
  }

  @Test(arguments: ["", " ", "\t\n", "\u{A0}\u{2003}\r\n"])
  func `a text that names something is refused if no character of it can be seen`(text: String) throws {
    let fixture = try TaskFixture()
    func check(_ what: String, _ change: @escaping (inout TaskOptions) -> Void) throws {
      let error = TaskError.invalidValue("\(what) is empty, or has only white space")
      #expect(throws: error) { try fixture.enqueue("refused", change) }
      // The sender of a command learns of it, and not only the process that applies it.
      var options = TaskOptions()
      change(&options)
      var batch = TaskInbox.Batch()
      #expect(throws: error) { try batch.enqueue(Note("refused"), options) }
    }
    try check("a limit key") { $0.limitKey = text }
    try check("the key of a unique task") { $0.unique = Uniqueness(key: text) }
    try check("the name of a header") { $0.headers = ["trace": "1", text: "2"] }
    try check("a tag") { $0.tags = ["a", text] }
    try check("a signal") { $0.start = .parked(wakeOn: ["a", WakeSignal(text)]) }
    #expect(throws: TaskError.invalidValue("the name of a schedule is empty, or has only white space")) {
      try fixture.scheduler.schedule(text, "@daily") { _ in Note("") }
    }
    // The value of a header may be empty.
    try fixture.enqueue("fits") { $0.headers = ["trace": text] }
    #expect(try fixture.taskCount() == 1)
  }

  @Test func `a handler that parks its task for an empty signal fails`() async throws {
    let fixture = try TaskFixture()
    try fixture.handle { _, _ in .park(wakeOn: [""]) }
    try await fixture.scheduler.start()
    let id = try fixture.enqueue("parks")
    await fixture.scheduler.waitUntilIdle()
    let task = try #require(try fixture.read { tx in try tx.task(id) })
    #expect(task.progress.state == .retryWait && task.errors == ["a signal is empty, or has only white space"])
    await fixture.scheduler.stop()
  }

  @Test(arguments: ["\u{0}", "\u{0}{\"text\":\"a\"}", "\u{1}", "\u{1}12345678123456781234567"])
  func `a unique key that could be that of a payload is refused`(key: String) throws {
    let fixture = try TaskFixture()
    try fixture.enqueue("a") { $0.unique = Uniqueness() }
    let first = try #require(key.utf8.first)
    let error = TaskError.invalidValue("a unique task: a key that begins with U+000\(first) may be that of a payload")
    #expect(throws: error) { try fixture.enqueue("b") { $0.unique = Uniqueness(key: key) } }
    // Elsewhere in a key these characters are like others.
    try fixture.enqueue("c") { $0.unique = Uniqueness(key: "k" + key) }
    #expect(try fixture.taskCount() == 2)
  }

  @Test func `a task can't depend on task 0, or belong to group 0, also as a command of the inbox`() throws {
    let fixture = try TaskFixture()
    var (child, member) = (TaskOptions(), TaskOptions())
    child.dependsOn = [TaskID(rawValue: 0)]
    member.group = TaskID(rawValue: 0)
    for options in [child, member] {
      let error = TaskError.invalidValue("a task depends on task 0, or belongs to group 0, and no task has this id")
      #expect(throws: error) { try fixture.write { tx in try tx.enqueue(Note("refused"), options) } }
      var batch = TaskInbox.Batch()
      #expect(throws: error) { try batch.enqueue(Note("refused"), options) }
    }
  }

  @Test func `negative times and numbers that can't be used are refused, and the error names the option`() throws {
    let fixture = try TaskFixture()
    let negative = Duration.seconds(-1)
    func check(_ message: String, _ change: @escaping (inout TaskOptions) -> Void) {
      #expect(throws: TaskError.invalidValue(message)) { try fixture.enqueue("refused", change) }
    }
    check("a start after \(negative) is negative") { $0.start = .after(negative) }
    for seconds in [Double.nan, .infinity, -.infinity] {
      check("a start at \(seconds) seconds since 1970 is not a time") {
        $0.start = .at(Date(timeIntervalSince1970: seconds))
      }
    }
    check("the retries of a task: the factor nan is not at least 1") { $0.retry = .exponential(factor: .nan) }
    check("the retries of a task: the factor inf is not at least 1") { $0.retry = .exponential(factor: .infinity) }
    check("the retries of a task: the jitter nan is not from 0 to 1") { $0.retry = .exponential(jitter: .nan) }
    check("the time limit \(negative) is not positive") { $0.timeout = negative }
    check("the time limit \(Duration.zero) is not positive") { $0.timeout = .zero }
    check("a retention of \(negative) is negative") { $0.retention = .keep(negative) }
    check("the retries of a task: a delay of \(negative) is negative") { $0.retry = .fixed(negative) }
    check("the retries of a task: a delay of \(negative) is negative") { $0.retry = .steps([.seconds(1), negative]) }
    check("a unique task: a delay of \(negative) is negative") {
      $0.unique = Uniqueness(key: "k", onConflict: .debounce(negative))
    }
    let (nine, ten) = (Duration.seconds(9), Duration.seconds(10))
    check("a unique task: a maximum wait of \(nine) is shorter than the delay of \(ten)") {
      $0.unique = Uniqueness(key: "k", onConflict: .debounce(ten, maxWait: nine))
    }
    check("a unique task: a window of \(negative) is not positive") {
      $0.unique = Uniqueness(key: "k", window: .sliding(negative))
    }
    check("a task has 0 attempts at most; at least 1 is possible, or nil for no limit") { $0.maxAttempts = 0 }
    check("0 tasks can't be kept; at least 1 is possible, or .deleteOnSuccess") { $0.retention = .keepCount(0) }
    check("the name of a queue is empty") { $0.queue = "" }
    #expect(try fixture.taskCount() == 0)

    let id = try fixture.enqueue("waits")
    #expect(throws: TaskError.invalidValue("a start after \(negative) is negative")) {
      try fixture.write { tx in try tx.edit(id, start: .after(negative)) }
    }
    #expect(throws: TaskError.invalidValue("a start at nan seconds since 1970 is not a time")) {
      try fixture.write { tx in try tx.edit(id, start: .at(Date(timeIntervalSince1970: .nan))) }
    }
  }

  @Test(arguments: [0, -1, Int.min]) func `a scheduler without workers is refused`(_ workers: Int) throws {
    let message = "a scheduler has \(workers) workers; at least 1 is possible, or nil for the default"
    #expect(throws: TaskError.invalidValue(message)) { try TaskFixture(workers: workers) }
  }

  @Test func `a handler is refused if its kind is empty or too large, or if an option can't be used`() throws {
    let scheduler = try TaskFixture().scheduler
    #expect(throws: TaskError.invalidValue("the kind of a payload is empty")) {
      try scheduler.register(Unnamed.self) { _, _ in .done }
    }
    #expect(throws: TaskError.tooLarge(what: "the kind of a payload", size: 256, limit: 255)) {
      try scheduler.register(LongName.self) { _, _ in .done }
    }
    func check(_ message: String, _ change: (inout HandlerOptions) -> Void) {
      var options = HandlerOptions()
      change(&options)
      #expect(throws: TaskError.invalidValue(message)) {
        try scheduler.register(Note.self, options: options) { _, _ in .done }
      }
    }
    for lease in [Duration.zero, .seconds(-1)] {
      check("the lease \(lease) is not positive") { $0.lease = lease }
    }
    let negative = Duration.seconds(-1)
    check("the retries of a handler: a delay of \(negative) is negative") { $0.retry = .fixed(negative) }
    check("the retries of a handler: the factor nan is not at least 1") { $0.retry = .exponential(factor: .nan) }
    check("the retries of a handler: the jitter inf is not from 0 to 1") { $0.retry = .exponential(jitter: .infinity) }
    // What was refused is not registered.
    try scheduler.register(LongestName.self) { _, _ in .done }
    try scheduler.register(Note.self) { _, _ in .done }
  }

  @Test func `an attempt fails that would park its task until a signal that is too large, or until too many`()
    async throws
  {
    let fixture = try TaskFixture()
    let large = WakeSignal(Self.text(256))
    try fixture.handle { note, _ in
      .park(wakeOn: note.text == "large" ? ["fits", large] : Set((0..<1_001).map { WakeSignal("\($0)") }))
    }
    var options = HandlerOptions()
    options.onError = { _, _ in .park(wakeOn: [large]) }
    try fixture.scheduler.register(Other.self, options: options) { _, _ in throw Broken() }
    let ids = [
      try fixture.enqueue("large"), try fixture.enqueue("many"),
      try fixture.write { tx in try tx.enqueue(Other()).id },
    ]
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    let tasks = try ids.map { id in try #require(try fixture.read { tx in try tx.task(id) }) }
    for task in tasks { #expect(task.progress.state == .retryWait && task.progress.failures == 1) }
    #expect(
      tasks.map(\.errors) == [
        ["a signal has 256 bytes, and may have 255 at most"],
        ["a task has 1001 signals that wake it, and may have 1000 at most"],
        ["a signal has 256 bytes, and may have 255 at most: Broken()"],
      ])
    await fixture.scheduler.stop()
  }

  @Test func `a start in the far future waits until then, or until the end of the year 9999, and the past means now`()
    async throws
  {
    let fixture = try TaskFixture()
    try fixture.handle()
    let latest = WallTime.latest
    let date = try fixture.enqueue("date") { $0.start = .at(.distantFuture) }
    let later = try fixture.enqueue("later") { $0.start = .at(Date(timeIntervalSince1970: 1e15)) }
    let delay = try fixture.enqueue("delay") { $0.start = .after(.seconds(1 << 40)) }
    try fixture.enqueue("past") { $0.start = .at(Date(timeIntervalSince1970: -1e15)) }
    let due = try fixture.read { tx in try [date, later, delay].map { try tx.task($0)?.due } }
    #expect(due == [WallTime.milliseconds(.distantFuture), latest, latest])
    try await fixture.scheduler.start()
    await fixture.scheduler.waitUntilIdle()
    #expect(fixture.lines.take() == ["past"])
    // A hundred years pass.
    await fixture.scheduler.advance(fixture.clock, by: .seconds(3_155_760_000))
    #expect(fixture.lines.take() == [])
    fixture.clock.setWall(.distantFuture)
    await fixture.scheduler.advance(fixture.clock, by: .seconds(60))
    #expect(fixture.lines.take() == ["date"])
    #expect(try fixture.state(later) == .scheduled && fixture.state(delay) == .scheduled)
    await fixture.scheduler.stop()
  }
}
