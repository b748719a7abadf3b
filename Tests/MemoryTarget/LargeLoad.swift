import VarveEngine

/// One operation with a large value, or with a large batch of small ones, whose memory is measured.
///
/// Memory that the caller has before the operation, such as the value of a put, is not part of the growth. What the
/// caller gets, such as the result of a `get`, is.
final class LargeLoad {
  /// The operation that is measured.
  enum Operation: String {
    /// A put, and one of a batch with the value, which copies the value in addition.
    case put, batch
    /// A batch of small entries: its own memory, and its commit.
    case entries, commit
    /// Four puts, with flushes in between as the budget requires them.
    case fourPuts
    /// The write of a memtable with the value to a table, and of two tables to one.
    case flush, compaction
    /// Reads of the value from a table: a copy, in place, and by a cursor.
    case get, withValue, cursor
    /// A read of a value that is folded of operands of 64 KiB.
    case fold
    /// An opening that replays the value from the log.
    case reopening
    /// The read of the value from the log by a follower.
    case follower
  }

  private let path: String
  private let budget: Int
  private let bytes: Int
  private let isNoise: Bool
  private(set) var growth: UInt64 = 0
  private(set) var usedMaximum = 0
  private(set) var wrongCount: UInt64 = 0

  /// Creates a load of values of so many bytes: of noise, which no codec compresses, or of words, which compress well.
  init(_ path: String, budget: Int, bytes: Int, isNoise: Bool) {
    self.path = path
    self.budget = budget
    self.bytes = bytes
    self.isNoise = isNoise
  }

  func run(_ operation: Operation) throws {
    switch operation {
    case .put: try put(1)
    case .fourPuts: try put(4)
    case .batch: try writeBatch()
    case .entries: try writeEntries(measuresBatch: true)
    case .commit: try writeEntries(measuresBatch: false)
    case .flush: try flush()
    case .compaction: try compact()
    case .get, .withValue, .cursor: try read(operation)
    case .fold: try fold()
    case .reopening: try reopen()
    case .follower: try follow()
    }
  }

  private func open(budget: Int? = nil) throws -> Engine {
    var options = EngineOptions()
    options.memoryBudget = budget ?? self.budget
    return try Engine.open(at: path, options: options)
  }

  /// Measures how much the resident size grows.
  private func measure(_ body: () throws -> Void) rethrows {
    let before = MemoryTarget.status("VmRSS:")
    MemoryTarget.resetPeak()
    try body()
    let peak = MemoryTarget.status("VmHWM:")
    growth = peak - min(before, peak)
  }

  private func note(_ engine: Engine) { usedMaximum = max(usedMaximum, engine.statistics.memory.used) }

  private func value(_ seed: UInt64 = 1) -> [UInt8] {
    var value = [UInt8](repeating: 0, count: bytes)
    var state = seed
    for index in value.indices {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      value[index] = isNoise ? UInt8(truncatingIfNeeded: state >> 56) : UInt8(truncatingIfNeeded: (index >> 4) & 0xff)
    }
    return value
  }

  private func check(_ isRight: Bool) { if !isRight { wrongCount += 1 } }

  // MARK: - Writes

  private func put(_ count: Int) throws {
    let engine = try open()
    let value = value()
    try measure {
      for number in 0..<count {
        try engine.put([UInt8(number)], value)
        note(engine)
      }
    }
    for number in 0..<count { check(try engine.get([UInt8(number)]) == value) }
  }

  private func writeBatch() throws {
    let engine = try open()
    let value = value()
    try measure {
      var batch = WriteBatch()
      try batch.put([1], value)
      try engine.write(batch)
      note(engine)
    }
    check(try engine.get([1]) == value)
  }

  private func writeEntries(measuresBatch: Bool) throws {
    let engine = try open()
    let value = [UInt8](repeating: 5, count: 400)
    let count = bytes / 412
    func fill(_ batch: inout WriteBatch) throws {
      for number in 0..<count { try batch.put(key(number), value) }
    }
    if measuresBatch {
      try measure {
        var batch = WriteBatch()
        try fill(&batch)
        try engine.write(batch)
        note(engine)
      }
    } else {
      var batch = WriteBatch()
      try fill(&batch)
      try measure {
        try engine.write(batch)
        note(engine)
      }
    }
    for number in stride(from: 0, to: count, by: 97) { check(try engine.get(key(number)) == value) }
  }

  private func key(_ number: Int) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) } }

  private func flush() throws {
    let engine = try open()
    let value = value()
    try engine.put([1], value)
    note(engine)
    try measure {
      try engine.flush()
      note(engine)
    }
    check(try engine.get([1]) == value)
  }

  private func compact() throws {
    let engine = try open()
    for seed in 1...2 as ClosedRange<UInt64> {
      // The tables overlap, so that they are merged and not moved.
      try engine.put([UInt8(seed)], value(seed))
      try engine.put([UInt8(10 - seed)], [1])
      try engine.flush()
    }
    try measure {
      try engine.compact()
      note(engine)
    }
    for seed in 1...2 as ClosedRange<UInt64> { check(try engine.get([UInt8(seed)]) == value(seed)) }
  }

  // MARK: - Reads

  private func read(_ operation: Operation) throws {
    let expected = value()
    do {
      let engine = try open()
      try engine.put([1], expected)
      try engine.flush()
      try engine.close()
    }
    let engine = try open()
    try measure {
      switch operation {
      case .get:
        let found = try engine.get([1])
        note(engine)
        check(found == expected)
      case .withValue:
        let key: [UInt8] = [1]
        let size: Int? = try unsafe engine.withValue(forKey: key.span.bytes) { $0.byteCount }
        note(engine)
        check(size == bytes)
      default:
        var cursor = try engine.cursor()
        try cursor.seekToFirst()
        check(cursor.isValid && cursor.value.byteCount == bytes)
        note(engine)
        try cursor.next()
        check(!cursor.isValid)
      }
    }
  }

  private func fold() throws {
    let engine = try open()
    let family = try engine.createFamily("folded", options: FamilyOptions(mergeOperator: AppendOperator().name))
    let value = value()
    let size = 64 << 10
    for start in stride(from: 0, to: bytes, by: size) {
      try engine.merge([1], [UInt8](value[start..<min(start + size, bytes)]), in: family)
    }
    try measure {
      let found = try engine.get([1], in: family)
      note(engine)
      check(found == value)
    }
  }

  private func reopen() throws {
    do {
      // Without a close, the log alone has the value.
      let engine = try open(budget: 16 * budget)
      try engine.put([1], value())
      try engine.sync()
    }
    var engine: Engine?
    try measure {
      engine = try open()
      if let engine { note(engine) }
    }
    check(try engine?.get([1]) == value())
  }

  private func follow() throws {
    let engine = try open(budget: 16 * budget)
    try engine.put([0], [0])
    var options = EngineOptions()
    options.memoryBudget = budget
    let follower = try Engine.follow(at: path, options: options)
    try follower.catchUp()
    try engine.put([1], value())
    try measure {
      try follower.catchUp()
      usedMaximum = max(usedMaximum, follower.engine.statistics.memory.used)
    }
    check(try follower.engine.get([1]) == value())
  }
}
