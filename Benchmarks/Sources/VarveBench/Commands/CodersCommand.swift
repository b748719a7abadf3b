import ArgumentParser
import Foundation
@_spi(Measurement) import Varve

/// `varve-bench coders` measures the coders of collections alone, with one thread and without storage.
///
/// Encoding ends when the bytes are lent to a closure, as a write uses them; decoding begins with bytes in memory. Each
/// coder is the one that a collection has, which keeps its encoders: those of JSON and of property lists are
/// Foundation's.
struct CodersCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "coders", abstract: "Measure the binary coder, JSON and property lists by themselves.",
    discussion: "Example: varve-bench coders --num 200000 --rounds 5")

  @Option(help: "Values that are encoded and decoded a round.")
  var num = 100_000

  @Option(help: "Rounds; the coders take turns, and the results are medians.")
  var rounds = 5

  @Option(help: "Seed of the values.")
  var seed: UInt64 = 42

  @Option(help: "Append a JSON object a row to this file.")
  var json: String?

  /// The number of different values, which is more than a cache of the processor holds.
  private static let distinct = 4_096

  func validate() throws {
    guard num >= 1, rounds >= 1 else { throw ValidationError("--num and --rounds are at least 1") }
  }

  func run() throws {
    let books = BookSource(compressionRatio: 0.5, seed: seed)
    let numbers = 0..<UInt64(Self.distinct)
    var rows = try measure("book", numbers.map { books.book($0) })
    rows += try measure("order", numbers.map { Order($0, books) })
    for row in rows { print(row.text) }
    guard let json else { return }
    if !FileManager.default.fileExists(atPath: json) { try Data().write(to: URL(fileURLWithPath: json)) }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: json))
    try file.seekToEnd()
    for row in rows { try file.write(contentsOf: try JSONEncoder().encode(row) + [10]) }
    try file.close()
  }

  /// The results of one coder for one kind of value.
  private struct CoderRow: Encodable {
    var workload = "coders"
    let value: String
    let coder: String
    let ops: Int
    let rounds: Int
    let encodeNanoseconds: Double
    let decodeNanoseconds: Double
    let bytes: Double

    enum CodingKeys: String, CodingKey {
      case workload, value, coder, ops, rounds, bytes
      case encodeNanoseconds = "encode_ns"
      case decodeNanoseconds = "decode_ns"
    }

    var text: String {
      let name = value.padding(toLength: 6, withPad: " ", startingAt: 0)
      let coder = coder.padding(toLength: 12, withPad: " ", startingAt: 0)
      return "\(name) \(coder) : "
        + String(format: "encode %7.0f ns, decode %7.0f ns, %6.1f bytes", encodeNanoseconds, decodeNanoseconds, bytes)
    }
  }

  private struct Measured {
    let probe: CoderProbe
    let name: String
    var encodeTimes: [Double] = []
    var decodeTimes: [Double] = []
    var bytes = 0.0
  }

  private func measure<Value: Codable & Equatable>(_ name: String, _ values: [Value]) throws -> [CoderRow] {
    var coders = [
      Measured(probe: CoderProbe(.binary), name: "binary"), Measured(probe: CoderProbe(.json), name: "json"),
      Measured(probe: CoderProbe(.propertyList), name: "propertyList"),
    ]
    for _ in 0..<rounds {
      for index in coders.indices { try measure(&coders[index], values) }
    }
    return coders.map { coder in
      CoderRow(
        value: name, coder: coder.name, ops: num, rounds: rounds, encodeNanoseconds: Self.median(coder.encodeTimes),
        decodeNanoseconds: Self.median(coder.decodeTimes), bytes: coder.bytes)
    }
  }

  private func measure<Value: Codable & Equatable>(_ coder: inout Measured, _ values: [Value]) throws {
    let probe = coder.probe
    // Every value is encoded and decoded once before the clock runs, so that shapes and caches are in the state of use,
    // and the results are checked.
    let rows = try values.map { try probe.encode($0) }
    for (value, row) in zip(values, rows) {
      guard try probe.decode(Value.self, row) == value else {
        throw EngineFailure("\(coder.name) gives another value back")
      }
    }
    coder.bytes = Double(rows.reduce(0) { $0 + $1.bytes.count }) / Double(rows.count)

    var size = 0
    var start = Clock.now()
    for index in 0..<num { size &+= try probe.encodedSize(values[index % values.count]) }
    coder.encodeTimes.append(Double(Clock.now() - start) / Double(num))

    var found = 0
    start = Clock.now()
    for index in 0..<num {
      let value = try probe.decode(Value.self, rows[index % rows.count])
      found &+= withExtendedLifetime(value) { 1 }
    }
    coder.decodeTimes.append(Double(Clock.now() - start) / Double(num))
    guard size > 0, found == num else { throw EngineFailure("\(coder.name) encoded nothing") }
  }

  private static func median(_ times: [Double]) -> Double { times.sorted()[times.count / 2] }
}
