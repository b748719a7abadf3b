import Foundation
import VarveEngine

/// The workload `largepeak`: the memory that one large thing takes, as a multiple of its size.
///
/// It is for Varve only. Each case has its own directory, which is removed afterwards.
extension EngineRun {
  private static let largeSize = 64 << 20
  private static let largeBudget = 128 << 20

  private enum LargeCase: String, CaseIterable {
    /// A put of one value, the flush of its memtable, and a get from the table.
    case put, flush, get
    /// The filling of a batch of entries of 400 bytes, and its commit.
    case batch
    /// The get of a value that is folded of operands of 64 KiB.
    case fold
  }

  func runLarge(_ workload: Workload) throws {
    let (begun, path) = try beginOwnRow(workload)
    for large in LargeCase.allCases {
      try? FileManager.default.removeItem(atPath: path)
      defer { try? FileManager.default.removeItem(atPath: path) }
      var row = begun
      row.variant = large.rawValue
      try measure(large, path, &row)
      try report(row)
    }
  }

  private func measure(_ large: LargeCase, _ path: String, _ row: inout Row) throws {
    var options = EngineOptions()
    options.memoryBudget = Self.largeBudget
    var engine = try Engine.open(at: path, options: options)
    let value = Self.noise(Self.largeSize, seed: settings.seed)
    row.ops = 1
    row.userBytes = UInt64(Self.largeSize)
    row.budgetBytes = UInt64(Self.largeBudget)
    switch large {
    case .put: try measureGrowth(engine, &row) { try engine.put([1], value) }
    case .flush:
      try engine.put([1], value)
      try measureGrowth(engine, &row) { try engine.flush() }
    case .get:
      try engine.put([1], value)
      try engine.close()
      engine = try Engine.open(at: path, options: options)
      try measureGrowth(engine, &row) {
        guard try engine.get([1])?.count == value.count else { throw EngineFailure("a large value is gone") }
      }
    case .batch:
      let entry = [UInt8](value[..<400])
      let entryCount = Self.largeSize / 412
      row.ops = entryCount
      try measureGrowth(engine, &row) {
        var batch = WriteBatch()
        for number in 0..<entryCount { try batch.put(Self.entryKey(number), entry) }
        try engine.write(batch)
      }
    case .fold:
      let family = try engine.createFamily(
        "folded", options: FamilyOptions(mergeOperator: AppendOperator().name))
      let operandSize = 64 << 10
      row.ops = Self.largeSize / operandSize
      for number in 0..<row.ops {
        try engine.merge([1], [UInt8](value[number * operandSize..<(number + 1) * operandSize]), in: family)
      }
      try measureGrowth(engine, &row) {
        guard try engine.get([1], in: family) == value else { throw EngineFailure("a folded value is wrong") }
      }
    }
    try engine.close()
  }

  /// Measures the growth of the resident size, beside what there is before the operation, such as its value.
  private func measureGrowth(_ engine: Engine, _ row: inout Row, _ body: () throws -> Void) throws {
    let before = UInt64(PeakMemory.current())
    PeakMemory.reset()
    let usage = ProcessUsage.now()
    let start = Clock.now()
    try body()
    row.seconds = Double(Clock.now() - start) / 1e9
    row.cpuSeconds = Double(ProcessUsage.now().cpuNanoseconds - usage.cpuNanoseconds) / 1e9
    row.peakResidentBytes = PeakMemory.read() - min(before, PeakMemory.read())
    row.peakAccountedBytes = UInt64(engine.statistics.memory.used)
    row.microsPerOp = row.seconds * 1e6 / Double(row.ops)
    row.opsPerSecond = Double(row.ops) / row.seconds
    guard settings.prints, let variant = row.variant else { return }
    let peak = Double(row.peakResidentBytes)
    print(
      String(
        format: "  %@: %.2f times its size and %.2f of the budget more are resident, %.1f MiB are accounted for",
        variant as NSString, peak / Double(row.userBytes), peak / Double(Self.largeBudget),
        Double(row.peakAccountedBytes ?? 0) / 1_048_576))
  }

  private static func entryKey(_ number: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) }
  }

  /// Returns bytes that no codec compresses.
  private static func noise(_ count: Int, seed: UInt64) -> [UInt8] {
    var random = SplitMix64(seed: seed)
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
      for index in stride(from: 0, to: count, by: 8) {
        let word = random.next()
        for byte in 0..<min(8, count - index) {
          buffer[index + byte] = UInt8(truncatingIfNeeded: word >> UInt64(byte * 8))
        }
      }
      used = count
    }
  }
}
