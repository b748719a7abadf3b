import ArgumentParser
import Foundation
import VarveEngine

/// `varve-bench damaged` measures puts over a table with a damaged block, and the same puts without damage.
struct DamagedCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "damaged", abstract: "Measure puts over a damaged table against puts without damage.",
    discussion: """
      A database is filled and compacted. One byte in the middle of the last level's largest table is inverted, and \
      then random keys of the whole range are put. The same runs without damage.

      Example: varve-bench damaged --seconds 60
      Exits with 1 when the damaged rate is below 80 percent of the other, or when a compaction failed more than once.
      """)

  @Option(help: "Seconds of puts in each of the two runs.")
  var seconds = 60.0

  @Option(help: "Keys.")
  var num = 20_000

  @Option(help: "Bytes of a value.")
  var valueSize = 1_000

  @Option(help: "Puts a second, spread evenly; 0: full speed.")
  var rate = 0

  @Option(help: "Memtable in MiB.")
  var memtableMb = 1

  @Option(help: "Directory of the databases.")
  var db = NSTemporaryDirectory() + "varve-bench-damaged"

  @Option(help: "Append a JSON object to this file.")
  var json: String?

  private struct Outcome {
    var puts = 0
    var seconds = 0.0
    var statistics: EngineStatistics
    var putsPerSecond: Double { seconds > 0 ? Double(puts) / seconds : 0 }
  }

  func run() throws {
    defer { try? FileManager.default.removeItem(atPath: db) }
    let whole = try measure(damages: false)
    let damaged = try measure(damages: true)
    let share = damaged.putsPerSecond / max(whole.putsPerSecond, 1)
    show("without damage", whole)
    show("damaged", damaged)
    for block in damaged.statistics.damagedBlocks { print(block) }
    print("the damaged rate is \(Int((share * 100).rounded())) % of the other")
    if let json { try append(whole, damaged, share, to: json) }
    let isMet = !damaged.statistics.damagedBlocks.isEmpty && damaged.statistics.work.failureCount <= 1
    if share < 0.8 || !isMet { throw ExitCode(1) }
  }

  private func show(_ name: String, _ outcome: Outcome) {
    let depth = outcome.statistics.families.map(\.levelZeroDepth).max() ?? 0
    print(
      "\(name): \(Int(outcome.putsPerSecond)) puts a second for \(Int(outcome.seconds)) s; depth of level 0 \(depth), "
        + "\(outcome.statistics.work.failureCount) failures of background work, "
        + "\(outcome.statistics.work.compactionCount) compactions")
  }

  private func measure(damages: Bool) throws -> Outcome {
    try? FileManager.default.removeItem(atPath: db)
    var options = EngineOptions()
    options.memtableSize = memtableMb << 20
    options.compression = .none
    let engine = try Engine.open(at: db, options: options)
    var random = SplitMix64(seed: 7)
    var value = [UInt8](repeating: 0, count: valueSize)
    func put() throws {
      let key = random.next() % UInt64(num)
      withUnsafeBytes(of: random.next()) { bytes in for (index, byte) in bytes.enumerated() { value[index] = byte } }
      try engine.put(Self.key(key), value)
    }
    for number in 0..<num { try engine.put(Self.key(UInt64(number)), value) }
    try engine.compact()
    if damages { try damageLargestTable() }
    let start = Clock.now()
    let end = start + UInt64(seconds * 1e9)
    var puts = 0
    while true {
      let now = Clock.now()
      if now >= end { break }
      if rate > 0, Double(puts) / Double(rate) > Double(now - start) / 1e9 {
        usleep(200)
        continue
      }
      for _ in 0..<16 { try put() }
      puts += 16
    }
    let outcome = Outcome(puts: puts, seconds: Double(Clock.now() - start) / 1e9, statistics: engine.statistics)
    try engine.close()
    return outcome
  }

  private static func key(_ number: UInt64) -> [UInt8] {
    let digits = String(number)
    return Array((String(repeating: "0", count: max(0, 16 - digits.utf8.count)) + digits).utf8)
  }

  /// Inverts one byte in the middle of the largest table.
  private func damageLargestTable() throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: db).filter { $0.hasSuffix(".sst") }
    let sized = try names.map { name in
      let size = try FileManager.default.attributesOfItem(atPath: db + "/" + name)[.size] as? UInt64 ?? 0
      return (path: db + "/" + name, size: size)
    }
    guard let largest = sized.max(by: { $0.size < $1.size }) else { throw EngineFailure("there is no table") }
    guard let file = FileHandle(forUpdatingAtPath: largest.path) else { throw EngineFailure("no \(largest.path)") }
    try file.seek(toOffset: largest.size / 2)
    let byte = try file.read(upToCount: 1)?.first ?? 0
    try file.seek(toOffset: largest.size / 2)
    try file.write(contentsOf: Data([~byte]))
    try file.close()
  }

  private func append(_ whole: Outcome, _ damaged: Outcome, _ share: Double, to path: String) throws {
    let object: [String: Any] = [
      "workload": "damaged", "seconds": seconds, "undamaged_puts_per_sec": whole.putsPerSecond,
      "damaged_puts_per_sec": damaged.putsPerSecond, "share": share,
      "failures": damaged.statistics.work.failureCount,
    ]
    let data = try JSONSerialization.data(withJSONObject: object, options: .sortedKeys) + Data([10])
    guard let file = FileHandle(forWritingAtPath: path) else {
      try data.write(to: URL(fileURLWithPath: path))
      return
    }
    try file.seekToEnd()
    try file.write(contentsOf: data)
    try file.close()
  }
}
