import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The process whose memory is measured.
///
///     varve-memory-target load <directory> <budget in bytes> <entries>
///     varve-memory-target mixed <directory> <budget in bytes> <operations>
///     varve-memory-target readers <directory> <budget in bytes> <threads> <bytes> <kind>
///     varve-memory-target replay <directory> <budget in bytes> <bytes>
///     varve-memory-target ranges <directory> <budget in bytes> <count>
///     varve-memory-target large <directory> <budget in bytes> <bytes> <operation> <kind of value>
///     varve-memory-target families <count>
///     varve-memory-target lives <directory> <count>
///     varve-memory-target fill <directory> <count> <rows> flushed|logged
///     varve-memory-target reopen <directory> <rows>
///
/// The results are numbers on the standard output, eight bytes little-endian each:
///
/// - `load`: the highest resident size, the highest usage that the engine counted against its budget, and the numbers
///   of entries that were found and scanned.
/// - `mixed`: the highest resident size, the highest usage that the engine counted, and the number of wrong results.
/// - `readers`: the highest resident size, the highest usage that the engine counted, and the numbers of reads and of
///   wrong results. It ends only once all obsolete files are removed, while the threads continue to read.
/// - `replay`: the highest resident size while a log of so many bytes is replayed, the usage that the engine counts
///   afterwards, and the number of entries that were found.
/// - `ranges`: the greatest growth of the resident size while a batch of so many range deletes was written, and while
///   it was flushed; the usage that the engine counted for its memtable; and the number of keys in the engine
///   afterwards.
/// - `large`: the greatest growth of the resident size during one operation with a value, or a batch, of so many bytes
///   (`LargeLoad`), the highest usage that the engine counted, and the number of wrong results.
/// - `families`: the resident size with an open engine, then with all families, then with an entry in each, then the
///   usage that the engine counts in each of the three states.
/// - `lives`: the microseconds for creating the families by one call, for an entry in each, for a flush, for a close,
///   for opening, and for a close of unflushed entries and opening after it; then the number of entries that were
///   found.
/// - `fill`: nothing.
/// - `reopen`: what `FamilyLoad.reopen` returns for the families that `fill` has written.
@main
struct MemoryTarget {
  static func main() throws {
    let arguments = CommandLine.arguments
    if arguments.count == 5, arguments[1] == "load", let budget = Int(arguments[3]), let count = UInt64(arguments[4]) {
      try load(arguments[2], budget: budget, count: count)
    } else if arguments.count == 3, arguments[1] == "families", let count = Int(arguments[2]) {
      try makeFamilies(count)
    } else if arguments.count == 5, arguments[1] == "mixed", let budget = Int(arguments[3]),
      let count = Int(arguments[4])
    {
      let load = try MixedLoad(arguments[2], budget: budget)
      try load.run(operations: count)
      report([status("VmHWM:"), UInt64(load.usedMaximum), load.wrongCount])
      if unsafe getenv("VARVE_MEMORY_EXPLAIN") != nil {
        standardError(load.summary + "resident: \(status("VmRSS:"))\n")
      }
    } else if arguments.count == 7, arguments[1] == "readers", let budget = Int(arguments[3]),
      let threads = Int(arguments[4]), let bytes = Int(arguments[5]), let kind = ReaderLoad.Kind(rawValue: arguments[6])
    {
      let load = try ReaderLoad(arguments[2], budget: budget, kind: kind)
      try load.run(threadCount: threads, bytes: bytes)
      report([status("VmHWM:"), UInt64(load.usedMaximum), UInt64(load.readCount), UInt64(load.wrongCount)])
    } else if arguments.count == 5, arguments[1] == "replay", let budget = Int(arguments[3]),
      let bytes = Int(arguments[4])
    {
      try replay(arguments[2], budget: budget, bytes: bytes)
    } else if arguments.count == 5, arguments[1] == "ranges", let budget = Int(arguments[3]),
      let count = UInt64(arguments[4])
    {
      try deleteRanges(arguments[2], budget: budget, count: count)
    } else if arguments.count == 7, arguments[1] == "large", let budget = Int(arguments[3]),
      let bytes = Int(arguments[4]), let operation = LargeLoad.Operation(rawValue: arguments[5])
    {
      let load = LargeLoad(arguments[2], budget: budget, bytes: bytes, isNoise: arguments[6] == "noise")
      try load.run(operation)
      report([load.growth, UInt64(load.usedMaximum), load.wrongCount])
    } else if arguments.count == 6, arguments[1] == "fill", let count = Int(arguments[3]),
      let rows = Int(arguments[4])
    {
      try FamilyLoad(arguments[2], rows: rows).fill(count, isFlushed: arguments[5] == "flushed")
    } else if arguments.count == 4, arguments[1] == "reopen", let rows = Int(arguments[3]) {
      report(try FamilyLoad(arguments[2], rows: rows).reopen())
    } else if arguments.count == 4, arguments[1] == "lives", let count = Int(arguments[3]) {
      try liveThrough(arguments[2], count)
    } else {
      print(
        "usage: varve-memory-target load <directory> <budget> <entries>, families <count>, lives <directory> <count>")
      exit(2)
    }
  }

  // MARK: - Load

  /// Writes in random order, reads in random order, scans, and then does all three concurrently, with values of 400
  /// bytes.
  private static func load(_ path: String, budget: Int, count: UInt64) throws {
    var options = EngineOptions()
    options.memoryBudget = budget
    let engine = try Engine.open(at: path, options: options)
    var used = 0
    for number in 0..<count {
      try engine.put(key(mixed(number, count)), value(number))
      if number % 1_024 == 0 { used = max(used, engine.statistics.memory.used) }
    }
    var found: UInt64 = 0
    for number in 0..<count / 2 {
      if try engine.get(key(mixed(number &* 7, count))) != nil { found += 1 }
      if number % 1_024 == 0 { used = max(used, engine.statistics.memory.used) }
    }
    var scanned: UInt64 = 0
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    while cursor.isValid {
      scanned += 1
      try cursor.next()
    }
    for number in 0..<count / 4 {
      try engine.put(key(mixed(number, count)), value(number))
      if try engine.get(key(mixed(number &* 3, count))) != nil { found += 1 }
    }
    report([status("VmHWM:"), UInt64(used), found, scanned])
    if unsafe getenv("VARVE_MEMORY_EXPLAIN") != nil {
      standardError(engine.explain() + "resident: \(status("VmRSS:"))\n")
    }
  }

  /// Maps each number to a key below `count`, unordered; about two thirds of the keys are used.
  private static func mixed(_ number: UInt64, _ count: UInt64) -> UInt64 { (number &* 0x9e37_79b9_7f4a_7c15) % count }

  private static func key(_ number: UInt64) -> [UInt8] {
    (0..<16).map { $0 < 8 ? UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) : UInt8($0) }
  }

  /// Returns a value of which half compresses well.
  private static func value(_ number: UInt64) -> [UInt8] {
    var state = number &* 0xbf58_476d_1ce4_e5b9 &+ 1
    var bytes = [UInt8](repeating: 7, count: 400)
    for index in 0..<200 {
      state = state &* 6_364_136_223_846_793_005 &+ 1
      bytes[index] = UInt8(truncatingIfNeeded: state >> 56)
    }
    return bytes
  }

  // MARK: - Range deletes

  /// Writes one batch of range deletes in random order, and flushes it.
  private static func deleteRanges(_ path: String, budget: Int, count: UInt64) throws {
    var options = EngineOptions()
    options.memoryBudget = budget
    let engine = try Engine.open(at: path, options: options)
    func location(_ number: UInt64) -> [UInt8] {
      (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
    }
    var batch = WriteBatch()
    for number in 0..<count {
      let start = (number &* 0x9e37_79b9_7f4a_7c15) >> 1
      try batch.deleteRange(from: location(start), to: location(start + 1_000))
    }
    for number in 0..<100 as Range<UInt64> { try engine.put(location((number &* 0x9e37_79b9_7f4a_7c15) >> 1), [1]) }
    try engine.put([0xff], [1])
    try engine.flush()
    let before = status("VmRSS:")
    resetPeak()
    try engine.write(batch)
    let written = status("VmHWM:")
    let counted = engine.statistics.memory.memTables
    resetPeak()
    try engine.flush()
    let flushed = status("VmHWM:")
    var found: UInt64 = 0
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    while cursor.isValid {
      found += 1
      try cursor.next()
    }
    report([written - min(before, written), flushed - min(before, flushed), UInt64(counted), found])
  }

  // MARK: - Replay

  /// Fills a log with an engine that has room for all of it, releases the engine without a close, and opens the
  /// database with a small budget.
  private static func replay(_ path: String, budget: Int, bytes: Int) throws {
    let count = UInt64(bytes / 420)
    do {
      var options = EngineOptions()
      options.memtableSize = 2 * bytes
      // The replay reads one segment at a time.
      options.logSegmentSize = 2 << 20
      let engine = try Engine.open(at: path, options: options)
      for number in 0..<count { try engine.put(key(number), value(number)) }
    }
    resetPeak()
    var options = EngineOptions()
    options.memoryBudget = budget
    let engine = try Engine.open(at: path, options: options)
    let used = engine.statistics.memory.used
    let peak = status("VmHWM:")
    var found: UInt64 = 0
    for number in 0..<count where try engine.get(key(number)) == value(number) { found += 1 }
    report([peak, UInt64(used), found, count])
    try engine.close()
  }

  /// Resets the process's highest resident size.
  static func resetPeak() {
    guard let file = unsafe fopen("/proc/self/clear_refs", "w") else { return }
    unsafe fputs("5", file)
    unsafe fclose(file)
  }

  // MARK: - Families

  /// Creates families on in-memory files, whose memory is counted too.
  private static func makeFamilies(_ count: Int) throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    var sizes = [status("VmRSS:")]
    var counted = [UInt64(engine.statistics.memory.used)]
    _ = try engine.createFamilies((0..<count).map { "family \($0)" })
    sizes.append(status("VmRSS:"))
    counted.append(UInt64(engine.statistics.memory.used))
    for family in engine.families where family.id != .default { try engine.put([1], [2], in: family) }
    sizes.append(status("VmRSS:"))
    counted.append(UInt64(engine.statistics.memory.used))
    report(sizes + counted)
  }

  /// Measures the time that many families take, on a real disk.
  private static func liveThrough(_ path: String, _ count: Int) throws {
    let clock = ContinuousClock()
    var times: [UInt64] = []
    func timed<R>(_ body: () throws -> R) rethrows -> R {
      let start = clock.now
      defer { times.append(UInt64((clock.now - start) / .microseconds(1))) }
      return try body()
    }
    var engine = try Engine.open(at: path)
    let names = (0..<count).map { "family \($0)" }
    let families = try timed { try engine.createFamilies(names) }
    try timed { for family in families { try engine.put([1], [2], in: family) } }
    try timed { try engine.flush() }
    try timed { try engine.close() }
    engine = try timed { try Engine.open(at: path) }
    for family in engine.families where family.id != .default { try engine.put([3], [4], in: family) }
    try timed { try engine.close() }
    engine = try timed { try Engine.open(at: path) }
    var found: UInt64 = 0
    for family in engine.families {
      if try engine.get([1], in: family) == [2] { found += 1 }
      if try engine.get([3], in: family) == [4] { found += 1 }
    }
    report(times + [found])
    try engine.close()
  }

  // MARK: - The process

  /// Returns a size from `/proc/self/status` in bytes, or zero if it is not there.
  static func status(_ name: String) -> UInt64 {
    guard let file = unsafe fopen("/proc/self/status", "r") else { return 0 }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while unsafe fgets(&line, CInt(line.count), file) != nil {
      let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      guard text.hasPrefix(name) else { continue }
      return UInt64(text.dropFirst(name.count).filter(\.isNumber)).map { $0 << 10 } ?? 0
    }
    return 0
  }

  private static func report(_ numbers: [UInt64]) {
    for number in numbers {
      var bytes = number.littleEndian
      // Safety: the number has eight bytes. A write of so few to a pipe is atomic.
      guard unsafe write(STDOUT_FILENO, &bytes, 8) == 8 else { exit(3) }
    }
  }

  private static func standardError(_ text: String) {
    var bytes = Array(text.utf8)
    // Safety: the count is that of the array.
    _ = unsafe write(STDERR_FILENO, &bytes, bytes.count)
  }
}
