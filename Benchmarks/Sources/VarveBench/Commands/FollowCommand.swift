import ArgumentParser
import Foundation
import Histogram
import VarveEngine

/// `varve-bench follow` measures how long after a commit of one process another process sees it.
///
/// The writer stores the time of the machine's monotonic clock in each commit before it puts it, and the follower reads
/// the clock when it has the value. So the result includes the put, the wake-up, the reading of the log and a get.
struct FollowCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "follow", abstract: "Measure how soon a follower in another process sees a commit.",
    discussion: """
      Example: varve-bench follow --num 5000 --interval 1000
      Exits with 1 when the median is above 5 milliseconds.
      """)

  @Option(help: "Commits that are measured.")
  var num = 2_000

  @Option(help: "Microseconds between them.")
  var interval = 2_000

  @Option(help: "Puts of 100 bytes that the writer commits between two of them.")
  var load = 0

  @Flag(help: "Without the shared page: the log is written by pwrite, and the follower polls it.")
  var poll = false

  @Option(help: "Directory of the database.")
  var db = NSTemporaryDirectory() + "varve-bench-follow"

  @Option(help: "Append a JSON object to this file.")
  var json: String?

  func run() throws {
    try? FileManager.default.removeItem(atPath: db)
    defer { try? FileManager.default.removeItem(atPath: db) }
    let writer = Process()
    writer.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    let numbers = ["--num", "\(num)", "--interval", "\(interval)", "--load", "\(load)"]
    writer.arguments = ["followwriter", db] + numbers + (poll ? ["--poll"] : [])
    let input = Pipe()
    let output = Pipe()
    writer.standardInput = input
    writer.standardOutput = output
    try writer.run()
    guard try output.fileHandleForReading.read(upToCount: 1)?.count == 1 else {
      throw EngineFailure("the writer ended before it had a database")
    }
    let follower = try Engine.follow(at: db, environment: FollowWriterCommand.environment(poll: poll))
    try input.fileHandleForWriting.write(contentsOf: Data([1]))
    let histogram = try measure(follower)
    writer.waitUntilExit()
    let way = follower.engine.explain().split(separator: "\n").first { $0.hasPrefix("follower") } ?? ""
    try follower.close()
    print(way)
    try report(histogram)
    if histogram.valueAtPercentile(50) > 5_000_000 { throw ExitCode(1) }
  }

  private func measure(_ follower: Follower) throws -> Histogram<UInt64> {
    var histogram = Histogram<UInt64>(highestTrackableValue: 60_000_000_000, numberOfSignificantValueDigits: .three)
    var sequence = follower.engine.visibleSequence
    var last: UInt64 = 0
    while true {
      guard let next = try follower.waitForCommit(after: sequence, timeout: 60_000_000_000) else {
        throw EngineFailure("no commit for a minute after \(sequence)")
      }
      sequence = next
      guard let value = try follower.engine.get(FollowWriterCommand.key) else { continue }
      let now = Clock.now()
      let stamp = value.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      if stamp == .max { return histogram }
      if stamp != last { histogram.record(now &- stamp) }
      last = stamp
    }
  }

  private func report(_ histogram: Histogram<UInt64>) throws {
    func micros(_ percentile: Double) -> Double { Double(histogram.valueAtPercentile(percentile)) / 1000 }
    let results: [(String, Double)] = [
      ("p50_us", micros(50)), ("p99_us", micros(99)), ("p999_us", micros(99.9)),
      ("max_us", Double(histogram.max) / 1000),
    ]
    let text = results.map { "\($0.0.dropLast(3)) \(String(format: "%.1f", $0.1))" }.joined(separator: "  ")
    print("follow       :   \(histogram.totalCount) of \(num) commits seen one by one; microseconds: \(text)")
    guard let json else { return }
    var object: [String: Any] = Dictionary(uniqueKeysWithValues: results)
    object["workload"] = "follow"
    object["engine"] = "varve"
    object["ops"] = histogram.totalCount
    let line = try JSONSerialization.data(withJSONObject: object, options: .sortedKeys) + Data([10])
    if !FileManager.default.fileExists(atPath: json) { try Data().write(to: URL(fileURLWithPath: json)) }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: json))
    try file.seekToEnd()
    try file.write(contentsOf: line)
  }
}

/// The writing process of `varve-bench follow`.
struct FollowWriterCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "followwriter", shouldDisplay: false)
  static let key = Array("stamp".utf8)

  @Argument var path: String
  @Option var num: Int
  @Option var interval: Int
  @Option var load: Int
  @Flag var poll = false

  static func environment(poll: Bool) -> EngineEnvironment {
    var environment = EngineEnvironment.system
    environment.fileSystem = PosixFileSystem(mapsFiles: !poll)
    return environment
  }

  func run() throws {
    let engine = try Engine.open(at: path, environment: Self.environment(poll: poll))
    FileHandle.standardOutput.write(Data([1]))
    _ = try FileHandle.standardInput.read(upToCount: 1)
    let filler = [UInt8](repeating: 7, count: 100)
    var random = SplitMix64(seed: 42)
    for _ in 0..<num {
      for _ in 0..<load { try engine.put(Self.bytes(random.next()), filler) }
      try engine.put(Self.key, Self.bytes(Clock.now()))
      usleep(UInt32(interval))
    }
    try engine.put(Self.key, Self.bytes(.max))
    try engine.close()
  }

  private static func bytes(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
  }
}
