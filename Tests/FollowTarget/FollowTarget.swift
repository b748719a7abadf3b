import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The processes of the follow tests.
///
/// `varve-follow-target write <directory> <first number> <last number>` commits numbered batches to two families;
/// every hundredth batch replaces a family. If the last number is 0, it runs until it is killed. After each commit it
/// writes the batch's number to the standard output, as eight bytes little-endian.
///
/// `varve-follow-target follow <directory> <last number>` follows that database until it sees the last number, and
/// checks every state on the way. It exits with 0 if all were right, and otherwise prints the difference and exits
/// with 1.
///
/// `write-cold` and `read-cold` do the same with the content of `ColdFamily`; each takes a directory and the last
/// number. The writer continues after the last number that it finds. The reader writes the number of states that it
/// checked, and of times that it met `.busy`.
@main
struct FollowTarget {
  static func main() throws {
    let arguments = CommandLine.arguments
    let numbers = arguments.dropFirst(3).compactMap { UInt64($0) }
    switch (arguments.dropFirst().first, numbers.count) {
    case ("write", 2): try Writing(path: arguments[2]).run(from: numbers[0], to: numbers[1])
    case ("follow", 1): try reportingFailure { try FollowChecks(path: arguments[2]).run(to: numbers[0]) }
    case ("write-cold", 1): try ColdWriting(path: arguments[2]).run(to: numbers[0])
    case ("read-cold", 1):
      let reading = ColdReading(path: arguments[2])
      try reportingFailure { try reading.run(to: numbers[0]) }
      acknowledge(reading.stateCount)
      acknowledge(reading.busyCount)
    default:
      print(
        "usage: varve-follow-target write <directory> <first> <last>, or follow|write-cold|read-cold <directory> <last>"
      )
      exit(2)
    }
  }

  private static func reportingFailure(_ body: () throws -> Void) throws {
    do {
      try body()
    } catch {
      let bytes = Array("reader: \(error)\n".utf8)
      // Safety: the count is that of the array.
      _ = unsafe write(STDERR_FILENO, bytes, bytes.count)
      exit(1)
    }
  }

  /// Writes a number to the standard output.
  static func acknowledge(_ number: UInt64) {
    var bytes = number.littleEndian
    // Safety: the number has eight bytes. A write of so few to a pipe is atomic.
    guard unsafe write(STDOUT_FILENO, &bytes, 8) == 8 else { exit(3) }
  }
}

/// The writer, and the families that it writes to.
struct Writing {
  let engine: Engine
  let pair: ColumnFamily

  init(path: String) throws {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 64 << 10
    engine = try Engine.open(at: path, options: options)
    pair = try engine.openFamily("pair")
  }

  func run(from first: UInt64, to last: UInt64) throws {
    var number = first
    while last == 0 || number <= last {
      if number % 100 == 0 { try turnFamilies(number) }
      try commit(number)
      FollowTarget.acknowledge(number)
      number += 1
    }
    try engine.close()
  }

  private func commit(_ number: UInt64) throws {
    var batch = WriteBatch()
    for (family, size) in [(engine.defaultFamily, 24), (pair, 100)] {
      try batch.put(Numbers.head, Numbers.key(number), in: family)
      try batch.put(Numbers.key(number), Numbers.value(number, size: size), in: family)
      if number > Numbers.kept { try batch.delete(Numbers.key(number - Numbers.kept), in: family) }
    }
    try engine.write(batch, durability: number % 64 == 0 ? .power : .process)
  }

  /// Creates a family for a hundred numbers, and drops the one before it.
  private func turnFamilies(_ number: UInt64) throws {
    for family in engine.families where family.name.hasPrefix("side") { try engine.dropFamily(family) }
    let side = try engine.createFamily("side")
    try engine.put(Numbers.key(number), Numbers.key(number), in: side)
  }
}

/// The keys and values of numbered batches.
enum Numbers {
  /// The number of newest numbers that are kept. Older ones are deleted: if one is found, a deleted entry has
  /// reappeared.
  static let kept: UInt64 = 1_000
  /// The key whose value is the last number, in each of both families.
  static let head = Array("head".utf8)

  static func key(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) }
  }

  static func number(_ key: [UInt8]) -> UInt64 { key.reduce(0) { $0 << 8 | UInt64($1) } }

  static func value(_ number: UInt64, size: Int) -> [UInt8] {
    (0..<size).map { UInt8(truncatingIfNeeded: number &* UInt64($0 + 1)) }
  }
}
