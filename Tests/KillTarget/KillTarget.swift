import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The process that the kill test kills: `varve-kill-target <directory> <first number>`.
///
/// It commits numbered batches until it is killed. After each commit it writes the batch's number to the standard
/// output, as eight bytes little-endian: the bytes in a pipe survive the writer.
@main
struct KillTarget {
  /// The number of newest batches whose markers are kept. Older ones are deleted: if one is found, a deleted entry
  /// has reappeared.
  static let kept: UInt64 = 1_000

  static func main() throws {
    let arguments = CommandLine.arguments
    if arguments.count == 4, arguments[1] == "scenario", let scenario = Scenario(rawValue: arguments[2]) {
      do { try scenario.run(arguments[3]) } catch {
        var message = Array("\(scenario): \(error)\n".utf8)
        _ = unsafe write(STDERR_FILENO, &message, message.count)
        exit(1)
      }
      exit(0)
    }
    guard arguments.count == 3, let first = UInt64(arguments[2]) else {
      print("usage: varve-kill-target <directory> <first number>")
      exit(2)
    }
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 256 << 10
    let engine = try Engine.open(at: arguments[1], options: options)
    let pair = try engine.openFamily("pair")
    var number = first
    while true {
      try commit(number, engine, pair)
      acknowledge(number)
      number += 1
    }
  }

  private static func commit(_ number: UInt64, _ engine: Engine, _ pair: ColumnFamily) throws {
    var batch = WriteBatch()
    for (family, size) in [(engine.defaultFamily, 24), (pair, 100)] {
      try batch.put(key(number), value(number, size: size), in: family)
      if number > kept { try batch.delete(key(number - kept), in: family) }
    }
    try engine.write(batch, durability: number % 16 == 0 ? .power : .process)
  }

  static func key(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
  }

  static func value(_ number: UInt64, size: Int) -> [UInt8] {
    (0..<size).map { UInt8(truncatingIfNeeded: number &* UInt64($0 + 1)) }
  }

  private static func acknowledge(_ number: UInt64) {
    var bytes = number.littleEndian
    // Safety: the number has eight bytes. A write of so few to a pipe is atomic.
    guard unsafe write(STDOUT_FILENO, &bytes, 8) == 8 else { exit(3) }
  }
}
