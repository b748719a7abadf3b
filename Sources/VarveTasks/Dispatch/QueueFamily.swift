/// The state that the lines of one queue share: its rules, the numbers of its running tasks, and its tokens.
///
/// It exists while one of its lines does, or while tokens are missing.
final class QueueFamily {
  let number: UInt32
  let name: QueueName
  let rules: QueueRules
  /// Whether the tasks of the queue need tokens.
  let hasRate: Bool
  var isPaused: Bool
  /// The number of lines of the queue in memory.
  var lineCount = 0
  /// Whether the family is in the list of those that may be forgotten.
  var isEmptied = false
  var runningCount = 0
  var startedCount = 0
  /// The lines that wait until another task of the queue has ended, in turn.
  var waiting: [LineID] = []
  private(set) var tokens: TokenBucket?
  /// The tokens of limit keys, for those keys that lack some.
  private var laneTokens: [UInt64: TokenBucket] = [:]
  /// Whether the tokens are the same as when they were last written.
  var isWritten = true

  init(_ number: UInt32, _ name: QueueName, _ rules: QueueRules, isPaused: Bool, _ tokens: TokenBucket?) {
    self.number = number
    self.name = name
    var rules = rules
    (rules.rate, rules.ratePerKey) = (rules.rate?.usable, rules.ratePerKey?.usable)
    self.rules = rules
    hasRate = rules.rate != nil || rules.ratePerKey != nil
    self.isPaused = isPaused
    self.tokens = tokens ?? rules.rate.map { TokenBucket(full: $0) }
  }

  /// Replaces the tokens by those on disk. It is called before a task of the queue has begun.
  func loadTokens(_ bucket: TokenBucket) { if rules.rate != nil { tokens = bucket } }

  /// Returns whether the family has no state that must be remembered, at a time of the continuous clock in
  /// milliseconds.
  func isIdle(_ now: Int64) -> Bool {
    guard lineCount == 0 else { return false }
    laneTokens = laneTokens.filter { lane, bucket in
      rules.ratePerKey.map { !bucket.isFull($0, now) } ?? false
    }
    return laneTokens.isEmpty && (rules.rate.flatMap { rate in tokens.map { $0.isFull(rate, now) } } ?? true)
  }

  /// Returns `nil` if there is a token for a task of a line at a time of the continuous clock in milliseconds, or the
  /// number of milliseconds until there is one.
  func wait(_ line: LineID, _ now: Int64) -> Int64? {
    if let rate = rules.rate, let wait = tokens?.wait(rate, now) { return wait }
    guard let rate = rules.ratePerKey, line.lane != 0 else { return nil }
    return laneTokens[line.lane]?.wait(rate, now)
  }

  /// Takes a token for a task of a line, for which there is one.
  func take(_ line: LineID, _ now: Int64) {
    if let rate = rules.ratePerKey, line.lane != 0 {
      laneTokens[line.lane, default: TokenBucket(full: rate, at: now)].take()
    }
    if tokens != nil {
      tokens?.take()
      isWritten = false
    }
  }

  /// Returns the token of a task that did not begin.
  func giveBack(_ line: LineID) {
    if tokens != nil { tokens?.giveBack() }
    laneTokens[line.lane]?.giveBack()
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
