/// The first position and state of a task, derived from the option `start`.
struct TaskDraft {
  var kind: TaskPosition.Kind
  var state: TaskState
  var due: Int64 = 0
  var delay: Int64 = 0
  var signals: [String] = []

  init(_ start: Start, now: Int64) {
    switch start {
    case .now: (kind, state) = (.queued, .ready)
    case .at(let date):
      let due = WallTime.milliseconds(date)
      if due <= now {
        (kind, state) = (.queued, .ready)
      } else {
        (kind, state) = (.timed, .scheduled)
        self.due = due
      }
    case .after(let duration):
      if duration <= .zero {
        (kind, state) = (.queued, .ready)
      } else {
        (kind, state) = (.timed, .scheduled)
        delay = max(1, duration.milliseconds)
        due = min(now + delay, WallTime.latest)
      }
    case .parked(let signals):
      (kind, state) = (.parked, .parked)
      self.signals = signals.map(\.text).sorted()
    }
  }

  private static func limit(
    _ what: String, _ size: Int, _ limit: Int, unit: String = "bytes"
  ) throws(TaskError) {
    if size > limit { throw .tooLarge(what: what, size: size, limit: limit, unit: unit) }
  }

  /// Checks a text that names something. Throws if no character of it can be seen, or if it is too large.
  static func check(_ what: String, _ text: String, atMost maximum: Int) throws(TaskError) {
    if text.allSatisfy(\.isWhitespace) { throw .invalidValue("\(what) is empty, or has only white space") }
    try limit(what, text.utf8.count, maximum)
  }

  /// Checks a kind. Throws if it is empty or too large.
  static func check(kind: String) throws(TaskError) {
    if kind.isEmpty { throw .invalidValue("the kind of a payload is empty") }
    try limit("the kind of a payload", kind.utf8.count, TaskLimits.kindSize)
  }

  /// Checks the signals that a parked task waits for. Throws if they are too many, or if one can't be used.
  static func check(signals: Set<WakeSignal>) throws(TaskError) {
    try limit("a task", signals.count, TaskLimits.signalCount, unit: "signals that wake it")
    for signal in signals { try check("a signal", signal.text, atMost: WakeSignal.sizeMaximum) }
  }

  /// Checks a kind, a payload and options. Throws if an option can't be used, or if a value is too large.
  static func check(_ kind: String, _ payload: [UInt8], _ options: TaskOptions) throws(TaskError) {
    let name = options.queue.text.utf8.count
    if name == 0 { throw .invalidValue("the name of a queue is empty") }
    try limit("the name of a queue", name, QueueName.sizeMaximum)
    try check(kind: kind)
    try limit("a payload", payload.count, TaskLimits.payloadSize)
    if let sortKey = options.sortKey { try limit("a sort key", sortKey.bytes.count - 1, SortKey.sizeMaximum) }
    try limit("a task", options.dependsOn.count, TaskLimits.parentCount, unit: "tasks that it depends on")
    if options.dependsOn.contains(TaskID(rawValue: 0)) || options.group == TaskID(rawValue: 0) {
      throw .invalidValue("a task depends on task 0, or belongs to group 0, and no task has this id")
    }
    if let key = options.limitKey { try check("a limit key", key, atMost: TaskLimits.limitKeySize) }
    if let unique = options.unique {
      if let key = unique.key { try check("the key of a unique task", key, atMost: TaskLimits.uniqueKeySize) }
      if let refusal = unique.refusal { throw .invalidValue("a unique task: \(refusal)") }
    }
    try limit(
      "a task's headers", options.headers.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count },
      TaskLimits.headersSize)
    for name in options.headers.keys { try check("the name of a header", name, atMost: TaskLimits.headersSize) }
    try limit("a task", options.tags.count, TaskLimits.tagCount, unit: "tags")
    for tag in options.tags { try check("a tag", tag, atMost: TaskLimits.tagSize) }
    if let attempts = options.maxAttempts, attempts < 1 {
      throw .invalidValue("a task has \(attempts) attempts at most; at least 1 is possible, or nil for no limit")
    }
    if let timeout = options.timeout, timeout <= .zero {
      throw .invalidValue("the time limit \(timeout) is not positive")
    }
    if let refusal = options.retry?.refusal { throw .invalidValue("the retries of a task: \(refusal)") }
    if let refusal = options.start.refusal { throw .invalidValue(refusal) }
    if case .parked(let signals) = options.start {
      if !options.dependsOn.isEmpty { throw .invalidValue("a task that depends on others can't be parked as well") }
      try check(signals: signals)
    }
    if case .keep(let time) = options.retention, time < .zero {
      throw .invalidValue("a retention of \(time) is negative")
    }
    if case .keepCount(let count) = options.retention, count < 1 {
      throw .invalidValue("\(count) tasks can't be kept; at least 1 is possible, or .deleteOnSuccess")
    }
  }
}
