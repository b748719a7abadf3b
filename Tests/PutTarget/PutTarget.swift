import AllocationCount
import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The process whose puts the cost test counts: `varve-put-target <directory> <warm-up> <count>`.
///
/// Opens a database with default options, and puts entries until the memtable and the log are warm. Then puts the
/// entries that are counted, between two calls of `getppid`, which a tracer of the process can detect. Exits without
/// a close. Six numbers are written to the standard output, eight bytes little-endian each:
///
/// 1. The allocations of an array, to prove that allocations are counted at all.
/// 2. The allocations of the puts.
/// 3. The entries in the memtable before the puts.
/// 4. The entries in the memtable after the puts.
/// 5. The bytes of the log's segments before the puts.
/// 6. The bytes of the log's segments after the puts.
@main
struct PutTarget {
  static func main() throws {
    let arguments = CommandLine.arguments
    guard arguments.count == 4, let warmUp = UInt64(arguments[2]), let count = UInt64(arguments[3]) else {
      print("usage: varve-put-target <directory> <warm-up> <count>")
      exit(2)
    }
    let engine = try Engine.open(at: arguments[1])
    let value = [UInt8](repeating: 7, count: 100)
    var key = [UInt8](repeating: 0, count: 16)
    try put(0..<warmUp, &key, value, engine)
    allocation_count_begin()
    let array = [UInt64](repeating: warmUp, count: 100)
    report(allocation_count_end(), isThere: array.count == 100)
    let before = engine.statistics
    allocation_count_begin()
    _ = getppid()
    try put(warmUp..<warmUp + count, &key, value, engine)
    _ = getppid()
    report(allocation_count_end(), isThere: true)
    let after = engine.statistics
    for statistics in [before, after] { report(UInt64(statistics.families[0].memTableEntryCount), isThere: true) }
    for statistics in [before, after] { report(statistics.logBytes, isThere: true) }
    exit(0)
  }

  /// Puts entries in a scattered key order; `key` is a buffer that is reused for each key.
  private static func put(
    _ numbers: Range<UInt64>, _ key: inout [UInt8], _ value: [UInt8], _ engine: Engine
  ) throws {
    for number in numbers {
      var bits = number &* 0x9e37_79b9_7f4a_7c15
      for index in 0..<8 {
        key[index] = UInt8(truncatingIfNeeded: bits)
        bits >>= 8
      }
      try engine.put(key, value)
    }
  }

  private static func report(_ number: UInt64, isThere: Bool) {
    var bytes = (isThere ? number : 0).littleEndian
    // Safety: the number has eight bytes. A write of so few to a pipe is atomic.
    guard unsafe write(STDOUT_FILENO, &bytes, 8) == 8 else { exit(3) }
  }
}
