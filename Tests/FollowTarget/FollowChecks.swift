import VarveEngine

/// A follower that checks each state of the database that `Writing` writes.
struct FollowChecks {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let follower: Follower
  private var engine: Engine { follower.engine }

  init(path: String) throws {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    follower = try Engine.follow(at: path, options: options)
  }

  func run(to last: UInt64) throws {
    var number: UInt64 = 0
    var sequence = SequenceNumber.zero
    var turn = 0
    while number < last {
      guard let next = try follower.waitForCommit(after: sequence, timeout: 120_000_000_000) else {
        throw Failure(description: "no commit for two minutes after \(sequence), which had number \(number)")
      }
      try require(next > sequence, "commit \(next) came after \(sequence)")
      sequence = next
      let seen = try check(isWhole: turn % 20 == 0)
      try require(seen >= number, "number \(seen) was seen after \(number)")
      number = seen
      turn += 1
    }
    try require(number == last, "number \(number) is more than the last, \(last)")
    _ = try check(isWhole: true)
    try follower.close()
  }

  /// Checks one snapshot, and returns its last number.
  private func check(isWhole: Bool) throws -> UInt64 {
    let snapshot = engine.snapshot()
    let pair = engine.families.first { $0.name == "pair" }
    guard let pair, let head = try engine.get(Numbers.head, snapshot: snapshot) else { return 0 }
    let last = Numbers.number(head)
    try require(
      try engine.get(Numbers.head, in: pair, snapshot: snapshot) == head, "half of batch \(last) is visible")
    for (family, size) in [(engine.defaultFamily, 24), (pair, 100)] {
      try require(
        try engine.get(Numbers.key(last), in: family, snapshot: snapshot) == Numbers.value(last, size: size),
        "number \(last) is not there")
      let next = try engine.get(Numbers.key(last + 1), in: family, snapshot: snapshot)
      try require(next == nil, "number \(last + 1) is there before its batch")
      if isWhole { try checkAll(family, snapshot, last: last, size: size) }
    }
    return last
  }

  /// Checks that the last `Numbers.kept` numbers are there, and no others.
  private func checkAll(_ family: ColumnFamily, _ snapshot: EngineSnapshot, last: UInt64, size: Int) throws {
    var expected = last > Numbers.kept ? last - Numbers.kept + 1 : 1
    var cursor = try engine.cursor(in: family, snapshot: snapshot)
    try cursor.seekToFirst()
    while cursor.isValid {
      let key = cursor.keyBytes
      if key != Numbers.head {
        try require(key == Numbers.key(expected), "\(key) where number \(expected) of \(last) was to be")
        try require(cursor.valueBytes == Numbers.value(expected, size: size), "a wrong value of number \(expected)")
        expected += 1
      }
      try cursor.next()
    }
    try require(expected == last + 1, "the numbers end at \(expected), and the last is \(last)")
  }

  private func require(_ condition: Bool, _ message: String) throws {
    if !condition { throw Failure(description: message) }
  }
}
