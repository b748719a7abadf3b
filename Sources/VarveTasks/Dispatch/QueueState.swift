/// The state that the subqueues of one queue share: its rules, the number of its running tasks, its tokens, and the
/// time that its handlers take.
///
/// It exists while one of its subqueues does, or while tokens are missing.
final class QueueState {
  let number: UInt32
  let name: QueueName
  let rules: QueueRules
  /// Whether the tasks of the queue need tokens.
  let hasRate: Bool
  var isPaused: Bool
  /// The number of subqueues of the queue in memory.
  var subqueueCount = 0
  /// Whether the queue is in the list of those that may be forgotten.
  var isEmptied = false
  var runningCount = 0
  /// The subqueues that wait for their turn until another task of the queue has ended, or the queue is resumed.
  private(set) var waiting = TurnQueue()
  /// The number of subqueues whose turn it is, and that have not begun a task yet.
  private var calledCount = 0
  /// The moving averages of the time that handlers take, in nanoseconds. A queue has tasks of few kinds.
  private var durations: [(handler: RegisteredHandler, nanoseconds: Double)] = []
  private(set) var tokens: TokenBucket?
  /// The tokens of limit keys, for those keys that lack some.
  private var laneTokens: [UInt64: TokenBucket] = [:]
  /// Whether the tokens are the same as when they were last written.
  var isWritten = true

  init(_ number: UInt32, _ name: QueueName, _ rules: QueueRules, isPaused: Bool, _ tokens: TokenBucket?) {
    self.number = number
    self.name = name
    self.rules = rules
    hasRate = rules.rate != nil || rules.ratePerKey != nil
    self.isPaused = isPaused
    self.tokens = tokens ?? rules.rate.map { TokenBucket(full: $0) }
  }

  // MARK: - Turns of limit keys

  /// Whether another task of the queue may begin, besides those of the subqueues whose turn it is.
  var hasRoom: Bool { runningCount + calledCount < rules.runningMaximum }

  /// Whether it is the turn of other subqueues, or they wait for it.
  var hasOthers: Bool { calledCount > 0 || !waiting.isEmpty }

  /// Lets a subqueue wait for its turn.
  func wait(_ subqueue: Subqueue) {
    subqueue.waitsForQueue = true
    waiting.append(subqueue.id)
  }

  /// Returns the subqueue that has waited longest, if another task of the queue may begin.
  func nextWaiting() -> SubqueueID? { hasRoom ? waiting.popFirst() : nil }

  /// Reserves one of the queue's running tasks for a subqueue whose turn it is.
  func call(_ subqueue: Subqueue) {
    subqueue.waitsForQueue = false
    if subqueue.isCalled { return }
    subqueue.isCalled = true
    calledCount += 1
  }

  /// Ends the turn of a subqueue, or its wait. Returns whether it was its turn.
  func endCall(_ subqueue: Subqueue) -> Bool {
    if !subqueue.isCalled { return false }
    subqueue.isCalled = false
    calledCount -= 1
    return true
  }

  // MARK: - Times of handlers

  /// Notes the nanoseconds that a handler has taken.
  func note(_ nanoseconds: Double, of handler: RegisteredHandler) {
    // An attempt that took an hour does not outweigh all later ones.
    let nanoseconds = min(max(1, nanoseconds), 10 * ClaimsAhead.nanoseconds)
    guard let index = durations.firstIndex(where: { $0.handler === handler }) else {
      return durations.append((handler, nanoseconds))
    }
    durations[index].nanoseconds += (nanoseconds - durations[index].nanoseconds) * 0.1
  }

  /// Returns the time that a handler takes in nanoseconds, or `nil` if it has ended no attempt.
  func duration(of handler: RegisteredHandler) -> Double? {
    durations.first { $0.handler === handler }?.nanoseconds
  }

  // MARK: - Tokens

  /// Replaces the tokens by those on disk. It is called before a task of the queue has begun.
  func loadTokens(_ bucket: TokenBucket) { if rules.rate != nil { tokens = bucket } }

  /// Returns whether the queue has no state that must be remembered, at a time of the continuous clock in
  /// milliseconds.
  func isIdle(_ now: Int64) -> Bool {
    guard subqueueCount == 0 else { return false }
    laneTokens = laneTokens.filter { lane, bucket in
      rules.ratePerKey.map { !bucket.isFull($0, now) } ?? false
    }
    return laneTokens.isEmpty && (rules.rate.flatMap { rate in tokens.map { $0.isFull(rate, now) } } ?? true)
  }

  /// Returns `nil` if there is a token for a task of a subqueue at a time of the continuous clock in milliseconds, or
  /// the number of milliseconds until there is one.
  func wait(_ subqueue: SubqueueID, _ now: Int64) -> Int64? {
    if let rate = rules.rate, let wait = tokens?.wait(rate, now) { return wait }
    guard let rate = rules.ratePerKey, subqueue.lane != 0 else { return nil }
    return laneTokens[subqueue.lane]?.wait(rate, now)
  }

  /// Takes a token for a task of a subqueue, for which there is one.
  func take(_ subqueue: SubqueueID, _ now: Int64) {
    if let rate = rules.ratePerKey, subqueue.lane != 0 {
      laneTokens[subqueue.lane, default: TokenBucket(full: rate, at: now)].take()
    }
    if tokens != nil {
      tokens?.take()
      isWritten = false
    }
  }

  /// Returns the token of a task that did not begin.
  func giveBack(_ subqueue: SubqueueID) {
    if tokens != nil { tokens?.giveBack() }
    laneTokens[subqueue.lane]?.giveBack()
  }
}

/// The tokens of a bucket as of a time, in milliseconds.
///
/// In memory the time is of the continuous clock, so that setting the wall clock neither delays the next token nor adds
/// one. On disk it is a time of day, in milliseconds since 1970.
struct TokenBucket: Hashable, Sendable {
  private(set) var tokens: Double
  private(set) var time: Int64

  init(tokens: Double, time: Int64) {
    self.tokens = tokens
    self.time = time
  }

  init(full rate: QueueRules.Rate, at time: Int64 = .min) { self.init(tokens: Double(rate.burst), time: time) }

  /// Adds the tokens that have become available until a time. Adds none if the clock was set back.
  private mutating func fill(_ rate: QueueRules.Rate, _ now: Int64) {
    if time == .min || now < time { time = now }
    let milliseconds = Double(max(1, rate.per.milliseconds))
    tokens = min(Double(rate.burst), tokens + Double(now - time) * Double(rate.count) / milliseconds)
    time = now
  }

  func isFull(_ rate: QueueRules.Rate, _ now: Int64) -> Bool {
    var bucket = self
    bucket.fill(rate, now)
    return bucket.tokens >= Double(rate.burst)
  }

  /// Returns `nil` if there is a token, or the number of milliseconds until there is one.
  mutating func wait(_ rate: QueueRules.Rate, _ now: Int64) -> Int64? {
    fill(rate, now)
    let missing = 1 - 1e-9 - tokens
    if missing <= 0 { return nil }
    let wait = missing * Double(max(1, rate.per.milliseconds)) / Double(rate.count)
    return max(1, Int64(min(wait, Double(WallTime.latest)).rounded(.up)))
  }

  /// Returns the same tokens as of the same time by another clock, which shows `offset` milliseconds more.
  func shifted(by offset: Int64) -> TokenBucket {
    time == .min ? self : TokenBucket(tokens: tokens, time: time &+ offset)
  }

  mutating func take() { tokens -= 1 }
  mutating func giveBack() { tokens += 1 }

  // MARK: - Stored form

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(number: tokens.bitPattern)
    bytes.append(time: time)
    return bytes
  }

  init(_ bytes: [UInt8]) throws(DamagedTask) {
    var reader = ByteReader(bytes)
    let tokens = Double(bitPattern: try reader.number())
    self.init(tokens: tokens.isFinite ? tokens : 0, time: try reader.time())
  }
}
