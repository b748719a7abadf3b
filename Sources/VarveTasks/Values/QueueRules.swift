/// How a queue runs its tasks.
///
/// A scheduler throws `TaskError.invalidValue` for numbers of tasks less than 1, and for times that are not positive.
public struct QueueRules: Hashable, Sendable {
  /// The order in which a queue runs its tasks.
  public enum Order: Hashable, Sendable {
    /// Tasks start in their order and run concurrently. A task that waits for another attempt lets others pass.
    case standard
    /// Tasks run one after the other: the next task starts when the previous one has ended permanently.
    ///
    /// A task that has failed and waits, or is parked, keeps its position and blocks the queue. A task that its handler
    /// postpones (`.snooze`) does not: it returns when its time has come, and others run meanwhile. Tasks with a limit
    /// key (`TaskOptions.limitKey`) run one after the other for each key, and up to `concurrency` keys concurrently.
    case serial(onDead: OnDead = .block)
  }

  /// The effect of a dead task on a serial queue.
  public enum OnDead: Hashable, Sendable {
    /// The queue waits until the task is revived or deleted. `TaskScheduler.blockedQueues` lists the queue.
    case block
    /// The next task runs.
    case skip
  }

  /// A token bucket: starting a task takes one token.
  ///
  /// `count` tokens are added in each `per`, evenly, and the bucket holds at most `burst`.
  public struct Rate: Hashable, Codable, Sendable {
    /// The number of tokens that are added in each `per`.
    public var count: Int
    /// The time in which `count` tokens are added.
    public var per: Duration
    /// The maximum number of tokens in the bucket.
    public var burst: Int

    /// Creates a rate. Without a `burst` the bucket holds `count` tokens.
    public init(count: Int, per: Duration, burst: Int? = nil) {
      self.count = count
      self.per = per
      self.burst = burst ?? count
    }

    /// The reason why the rate can't be used, or `nil` if it can.
    fileprivate var refusal: String? {
      if count < 1 || burst < 1 { return "a rate of \(count) tasks with a burst of \(burst); both are 1 or more" }
      return per < .milliseconds(1) ? "a rate per \(per); expected a millisecond or more" : nil
    }
  }

  /// The order in which the queue runs its tasks.
  public var order = Order.standard
  /// The maximum number of tasks of the queue that run at once.
  ///
  /// A serial queue runs one task at a time, and one of each limit key.
  public var concurrency = 8
  /// The maximum number of tasks of one limit key that run at once, or `nil` for the maximum of the queue.
  public var perKey: Int?
  /// The maximum rate at which tasks of the queue start, or `nil` if there is no limit.
  public var rate: Rate?
  /// The maximum rate at which tasks of one limit key start, or `nil` if there is no limit. The count starts again
  /// after a restart.
  public var ratePerKey: Rate?
  /// The maximum number of waiting tasks of the queue, or `nil` if there is no limit. At the maximum, enqueueing throws
  /// `TaskError.queueFull`.
  ///
  /// The limit is checked if the scheduler runs in the process that enqueues. A transaction may not see that other
  /// transactions have just finished tasks.
  public var maxWaiting: Int?
  /// In a standard queue, the time after which waiting tasks move up by one priority, again each time that it passes.
  ///
  /// `nil` means that priorities are strict, within each limit key. At least a millisecond.
  public var ageing: Duration?
  /// The number of tasks that the queue may start in its turn before the next queue has its turn. At least 1.
  public var weight = 1
  /// In a serial queue, whether the next task waits until the end of the previous one survives a power loss.
  ///
  /// If a handler calls `TaskContext.complete(_:)` within a transaction of its own, the durability of that transaction
  /// counts.
  public var strictDurableOrder = false
  /// In a serial queue, whether a handler that does not end when it is cancelled may be left running while the next
  /// task starts. A standard queue always allows this.
  public var leavesHandlers = false

  /// Creates the rules of a standard queue.
  public init() {}

  /// Creates the rules of a queue with an order.
  public init(order: Order, concurrency: Int = 8) {
    self.order = order
    self.concurrency = concurrency
  }

  /// The reason why the rules can't be used, or `nil` if they can.
  var refusal: String? {
    let counts = [("concurrency", concurrency), ("perKey", perKey), ("weight", weight)]
    for case (let name, let count?) in counts where count < 1 { return "\(name) is \(count); expected 1 or more" }
    if let maxWaiting, maxWaiting < 0 { return "maxWaiting is \(maxWaiting); expected 0 or more" }
    if let ageing, ageing < .milliseconds(1) { return "ageing is \(ageing); expected a millisecond or more" }
    return rate?.refusal ?? ratePerKey?.refusal
  }

  /// Throws `TaskError.invalidValue` if the rules can't be used for some queues.
  func check(_ queues: QueueSelector) throws(TaskError) {
    if let refusal { throw .invalidValue("the rules of \(queues): \(refusal)") }
  }

  var isSerial: Bool { if case .serial = order { true } else { false } }
  var blocksOnDead: Bool { order == .serial(onDead: .block) }
  /// The largest number of tasks that limits are computed with. A larger one has the same effect.
  static let numberMaximum = Int.max >> 8

  static func clip(_ number: Int) -> Int { min(max(1, number), numberMaximum) }

  /// The maximum number of running tasks of the queue.
  var runningMaximum: Int { Self.clip(concurrency) }
  /// The maximum number of tasks that the queue starts in its turn.
  var turnMaximum: Int { Self.clip(weight) }
  /// The time after which waiting tasks of the queue move up, or `nil` if they never do.
  var ageingTime: Duration? { isSerial ? nil : ageing.map { max($0.clipped, .milliseconds(1)) } }
  /// Returns the maximum number of running tasks of a subqueue: the tasks of one limit key, or those without one.
  func runningMaximum(hasKey: Bool) -> Int {
    isSerial ? 1 : hasKey ? min(max(1, perKey ?? concurrency), runningMaximum) : runningMaximum
  }
}

/// A selection of queues by their names.
///
/// If several selectors contain a queue, the most exact one counts: its name, then the longest prefix, then `all`. A
/// prefix names many queues, and its rules hold for each of them alone: with a concurrency of 2, each runs two tasks.
public enum QueueSelector: Hashable, Sendable, CustomStringConvertible {
  /// All queues.
  case all
  /// The queue with a name.
  case named(QueueName)
  /// The queues whose names begin with a text.
  case prefix(String)

  /// Returns whether the selector contains a queue.
  public func contains(_ name: QueueName) -> Bool {
    switch self {
    case .all: true
    case .named(let own): own == name
    case .prefix(let prefix): name.text.utf8.starts(with: ComposedName.of(prefix).utf8)
    }
  }

  /// How exact the selector is; larger is more exact.
  var rank: Int {
    switch self {
    case .all: 0
    case .prefix(let prefix): 1 + prefix.utf8.count
    case .named: .max
    }
  }

  /// Returns whether a queue may exist that both selectors contain.
  func overlaps(_ other: QueueSelector) -> Bool {
    switch (self, other) {
    case (.all, _), (_, .all): true
    case (.named(let name), _): other.contains(name)
    case (_, .named(let name)): contains(name)
    case (.prefix(let left), .prefix(let right)):
      ComposedName.of(left).utf8.starts(with: ComposedName.of(right).utf8)
        || ComposedName.of(right).utf8.starts(with: ComposedName.of(left).utf8)
    }
  }

  /// A description of the selected queues for messages.
  public var description: String {
    switch self {
    case .all: "all queues"
    case .named(let name): "queue \"\(name)\""
    case .prefix(let prefix): "queues that begin with \"\(prefix)\""
    }
  }
}

/// The rules of the queues of a scheduler.
///
/// Those of single queues are in a dictionary: a program may have rules for each of many queues.
struct QueueRuleTable: Sendable {
  private var named: [QueueName: QueueRules] = [:]
  /// The rules of prefixes and of all queues, the most exact one first.
  private(set) var others: [(selector: QueueSelector, rules: QueueRules)] = []
  /// Whether any of the rules has a limit of waiting tasks.
  private(set) var hasWaitingLimits = false

  init(_ rules: [QueueSelector: QueueRules] = [:]) {
    for (selector, rules) in rules { set(rules, for: selector) }
  }

  /// Sets the rules of a selector.
  ///
  /// Complexity: O(1) for a single queue, and otherwise O(*n*) of such other selectors.
  mutating func set(_ rules: QueueRules, for selector: QueueSelector) {
    if rules.maxWaiting != nil { hasWaitingLimits = true }
    if case .named(let queue) = selector { return named[queue] = rules }
    others.removeAll { $0.selector == selector }
    let index = others.firstIndex { $0.selector.rank < selector.rank } ?? others.count
    others.insert((selector, rules), at: index)
  }

  /// Returns the most exact rules for a queue, or `nil` if no selector contains it.
  func find(_ queue: QueueName) -> QueueRules? {
    named[queue] ?? others.first { $0.selector.contains(queue) }?.rules
  }
}
