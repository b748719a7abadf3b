/// How a queue runs its tasks.
public struct QueueRules: Hashable, Sendable {
  /// In which order.
  public enum Order: Hashable, Sendable {
    /// Tasks start in their order and run side by side. A task that waits to be run again lets others pass.
    case standard
    /// One after the other: the next task starts when the one before has ended for good. A task that has failed and waits,
    /// or is parked, keeps its position and blocks the queue. One that its handler puts off (`.snooze`) does not: it comes back when
    /// its time has come, and others run meanwhile. Tasks with a limit key (`TaskOptions.limitKey`) run one after the
    /// other for each key: up to `concurrency` keys side by side.
    case serial(onDead: OnDead = .block)
  }

  /// What a dead task means for a serial queue.
  public enum OnDead: Hashable, Sendable {
    /// The queue waits until it is revived or deleted: `blockedQueues()` lists it.
    case block
    /// The next one runs.
    case skip
  }

  /// A bucket of tokens: beginning a task takes one. `count` come in each `per`, evenly, and the bucket holds `burst` at most.
  public struct Rate: Hashable, Codable, Sendable {
    /// How many come.
    public var count: Int
    /// In which time.
    public var per: Duration
    /// How many the bucket holds.
    public var burst: Int

    /// A rate; without a `burst` the bucket holds `count`. Less than 1 counts as 1, and a time that is not positive as a
    /// millisecond.
    public init(count: Int, per: Duration, burst: Int? = nil) {
      self.count = max(1, count)
      self.per = max(per, .milliseconds(1))
      self.burst = max(1, burst ?? count)
    }
  }

  /// In which order.
  public var order = Order.standard
  /// How many tasks of the queue run at once, at most. A serial queue runs one, and one of each limit key.
  public var concurrency = 8
  /// How many tasks of one limit key run at once, at most; nil: as many as of the queue.
  public var perKey: Int?
  /// How many tasks of the queue begin in a time, at most; nil: without a limit.
  public var rate: Rate?
  /// How many tasks of one limit key begin in a time, at most; nil: without a limit. The count begins again after a restart.
  public var ratePerKey: Rate?
  /// How many tasks of the queue may wait, before enqueueing throws `TaskError.queueFull`; nil: without a limit. Looked at where the
  /// scheduler runs in the process that enqueues. A transaction may not see what others have just finished.
  public var maxWaiting: Int?
  /// In a standard queue: each time that so long has passed, tasks that have waited for it move up by one priority; nil: priorities
  /// are strict.
  public var ageing: Duration?
  /// How many tasks the queue may start when it is its turn, before the next queue has it. At least 1.
  public var weight = 1
  /// In a serial queue: whether the next task waits until the end of the one before survives a loss of power.
  public var strictDurableOrder = false
  /// In a serial queue: whether a handler that does not end when it is cancelled may be left running while the next task
  /// starts. A standard queue does so always.
  public var leavesHandlers = false

  /// A standard queue.
  public init() {}

  /// A queue with an order.
  public init(order: Order, concurrency: Int = 8) {
    self.order = order
    self.concurrency = concurrency
  }

  var isSerial: Bool { if case .serial = order { true } else { false } }
  var blocksOnDead: Bool { order == .serial(onDead: .block) }
  /// Of the queue.
  var runningMaximum: Int { max(1, concurrency) }
  /// Of a line of it: the tasks of one limit key, or those without.
  func runningMaximum(hasKey: Bool) -> Int {
    isSerial ? 1 : hasKey ? min(max(1, perKey ?? concurrency), runningMaximum) : runningMaximum
  }
}

/// Some queues, by their names. Of several that select a queue the most exact counts: its name, then the longest prefix,
/// then all.
public enum QueueSelector: Hashable, Sendable, CustomStringConvertible {
  /// All of them.
  case all
  /// One.
  case named(QueueName)
  /// Those whose names begin with a text.
  case prefix(String)

  /// Whether it selects a queue.
  public func contains(_ name: QueueName) -> Bool {
    switch self {
    case .all: true
    case .named(let own): own == name
    case .prefix(let prefix): name.text.utf8.starts(with: ComposedName.of(prefix).utf8)
    }
  }

  /// How exact it is.
  var rank: Int {
    switch self {
    case .all: 0
    case .prefix(let prefix): 1 + prefix.utf8.count
    case .named: .max
    }
  }

  /// Whether some queue is selected by both.
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

  /// As messages name it.
  public var description: String {
    switch self {
    case .all: "all queues"
    case .named(let name): "queue \"\(name)\""
    case .prefix(let prefix): "queues that begin with \"\(prefix)\""
    }
  }
}
