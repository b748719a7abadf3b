import VarveEngine

/// Readers of a `ColdFamily`, which check each state that they see: read-only opens, new followers, and a follower that
/// stays, and lags at times.
final class ColdReading {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  let path: String
  private var sequence = SequenceNumber.zero
  private(set) var stateCount: UInt64 = 0
  private(set) var busyCount: UInt64 = 0

  init(path: String) { self.path = path }

  /// Reads until the last number is visible.
  func run(to last: UInt64) throws {
    let follower = try Engine.follow(at: path, options: ColdWriting.options)
    var followed = try check(follower.engine, "follower")
    var number: UInt64 = 0
    var turn = 0
    while number < last {
      number = try openReadOnly()
      number = max(number, try openFollower())
      // The other half of the time it lags.
      let hasCaughtUp = turn / 8 % 2 == 0 ? try unlessBusy { try follower.catchUp() } != nil : false
      let seen = try check(follower.engine, "follower in turn \(turn)")
      try require(
        hasCaughtUp ? seen >= number : seen == followed, "the follower went from \(followed) to \(seen) of \(number)")
      followed = seen
      turn += 1
    }
    try follower.catchUp()
    try require(try check(follower.engine, "follower at the end") == last, "the follower has not caught up")
    try follower.close()
  }

  private func openReadOnly() throws -> UInt64 {
    var options = ColdWriting.options
    options.readOnly = true
    options.createIfMissing = false
    let engine = try retryingBusy { try Engine.open(at: path, options: options) }
    defer { try? engine.close() }
    return try check(engine, "read-only open", isNew: true)
  }

  private func openFollower() throws -> UInt64 {
    let follower = try retryingBusy { try Engine.follow(at: path, options: ColdWriting.options) }
    defer { try? follower.close() }
    return try check(follower.engine, "new follower", isNew: true)
  }

  /// Calls `body` until the writer does not free segments too often for it.
  private func retryingBusy<Result>(_ body: () throws -> Result) throws -> Result {
    while true {
      if let result = try unlessBusy(body) { return result }
    }
  }

  /// Returns `nil` if the writer freed segments too often for `body`.
  private func unlessBusy<Result>(_ body: () throws -> Result) throws -> Result? {
    do {
      return try body()
    } catch let error as EngineError where error.code == .busy {
      busyCount += 1
      return nil
    }
  }

  /// Checks that the content is that of the last batch, and returns its number. A new reader sees at least what earlier
  /// ones saw.
  private func check(_ engine: Engine, _ reader: String, isNew: Bool = false) throws -> UInt64 {
    stateCount += 1
    let snapshot = engine.snapshot()
    if isNew {
      try require(snapshot.sequence >= sequence, "\(reader): \(snapshot.sequence) was seen after \(sequence)")
      sequence = snapshot.sequence
    }
    let cold = engine.families.first { $0.name == ColdFamily.name }
    guard let cold, let head = try engine.get(Numbers.head, snapshot: snapshot) else { return 0 }
    let last = Numbers.number(head)
    let location = "\(reader): at batch \(last), sequence \(snapshot.sequence)"
    for group in 0..<ColdFamily.groupCount {
      let newest = ColdFamily.newest(ofGroup: group, last: last)
      let hot = try engine.get(Numbers.key(group), snapshot: snapshot)
      try require(
        hot == newest.map(ColdFamily.value),
        "\(location): group \(group) has \(hot.map { Numbers.number(Array($0.prefix(8))) } ?? 0), and not \(newest ?? 0)"
      )
      let small = try engine.get(Numbers.key(group), in: cold, snapshot: snapshot)
      try require(
        small == newest.map(Numbers.key),
        "\(location): group \(group) has \(small.map(Numbers.number) ?? 0) in the cold family, and not \(newest ?? 0)")
    }
    for number in stride(from: ColdFamily.onceInterval, through: last, by: Int(ColdFamily.onceInterval)) {
      let value = try engine.get(ColdFamily.onceKey(number), in: cold, snapshot: snapshot)
      try require(value == Numbers.key(number), "\(location): row \(number), which was written once, is missing")
    }
    return last
  }

  private func require(_ condition: Bool, _ message: @autoclosure () -> String) throws {
    if !condition { throw Failure(description: message()) }
  }
}
