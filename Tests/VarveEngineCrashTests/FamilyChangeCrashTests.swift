import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of ingestions and changes of options on a disk that loses power at each of their operations.
struct FamilyChangeCrashTests {
  private static func key(_ index: Int) -> [UInt8] { Array("key\(100_000 + index)".utf8) }

  /// Runs `body`, and checks every image of a crash at each of its operations, and one after it. Returns the number
  /// of operations.
  static func images(
    _ disk: CrashFileSystem, _ body: () throws -> Void,
    check: (_ image: CrashFileSystem, _ location: String, _ isAcknowledged: Bool) throws -> Void
  ) throws -> Int {
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in points.withLock { $0.append(capture()) } }
    try body()
    disk.observe(nil)
    let during = points.withLock { $0 }
    for (index, point) in (during + [disk.crashPoint]).enumerated() {
      for policy in CrashPolicy.allCases {
        for seed in 0..<UInt64(3 * TestScale.value) {
          let image = point.image(seed: seed &* 31 &+ UInt64(index), policy: policy)
          let location = "operation \(point.operation.map { "\($0)" } ?? "none"), \(policy), seed \(seed)"
          try check(image, location, index == during.count)
        }
      }
    }
    return during.count
  }

  @Test func `a crash at any operation of an ingestion leaves all of its entries or none`() throws {
    let disk = CrashFileSystem(seed: 21)
    let engine = try CheckpointCrashTests.open(disk, at: "/db", seed: 1)
    let family = try engine.createFamily("f", options: FamilyOptions(compression: CompressionKind.none))
    try engine.put([1], [1])
    try engine.sync()
    try engine.put([2], [2])
    var (absent, whole) = (0, 0)
    let count = try Self.images(disk) {
      let writer = try engine.makeTableWriter(for: family)
      for index in 0..<1_000 { try writer.put(Self.key(index), [UInt8](repeating: UInt8(index & 0xff), count: 1_200)) }
      // A second writer is needed, because one writer makes tables of the last level's size.
      let second = try engine.makeTableWriter(for: family)
      for index in 1_000..<2_000 {
        try second.put(Self.key(index), [UInt8](repeating: UInt8(index & 0xff), count: 1_200))
      }
      let tables = try writer.finish() + second.finish()
      #expect(tables.count > 1)
      try engine.ingest(tables, into: family)
    } check: { image, location, isAcknowledged in
      let copy = try CheckpointCrashTests.open(image, at: "/db", seed: 3)
      let family = try copy.family(named: "f")
      let content = try copy.content()
      let found = content["f"]?.count ?? 0
      #expect(found == 0 || found == 2_000, "\(location): \(found) of 2,000 entries")
      #expect(try copy.get([1]) == [1], "\(location)")
      if found > 0 { #expect(try copy.get([2]) == [2], "\(location): a commit before the ingestion is gone") }
      if isAcknowledged { #expect(found == 2_000, "\(location): acknowledged, and gone") }
      if found == 0 { absent += 1 } else { whole += 1 }
      let faults = try copy.verify().faults
      #expect(faults.isEmpty, "\(location): \(faults)")
      // In either case, the family stays usable: a write that is made now is newer.
      try copy.put(Self.key(7), [7], in: family)
      #expect(try copy.get(Self.key(7), in: family) == [7], "\(location)")
      try copy.close()
    }
    print("ingestion crashes: \(count) operations; \(absent) images without, \(whole) with it")
    #expect(count > 10 && absent > 10 && whole > 2)
    try engine.close()
  }

  @Test func `a crash at any operation of a change of options leaves the old options or the new ones in force`() throws
  {
    let disk = CrashFileSystem(seed: 22)
    let engine = try CheckpointCrashTests.open(disk, at: "/db", seed: 1)
    let old = FamilyOptions(compression: .lz4, mergeOperator: "varve.counter")
    let new = FamilyOptions(compression: .zstd, mergeOperator: "varve.counter", memtableSize: 64 << 10)
    let family = try engine.createFamily("f", options: old)
    try engine.put([1], [1], in: family)
    try engine.sync()
    var (before, after) = (0, 0)
    let count = try Self.images(disk) {
      try engine.setOptions(new, of: family)
    } check: { image, location, isAcknowledged in
      let copy = try CheckpointCrashTests.open(image, at: "/db", seed: 3)
      let options = try copy.family(named: "f").options
      #expect(options == old || options == new, "\(location): \(options)")
      if isAcknowledged { #expect(options == new, "\(location): acknowledged, and gone") }
      if options == old { before += 1 } else { after += 1 }
      #expect(try copy.get([1], in: try copy.family(named: "f")) == [1], "\(location)")
      try copy.close()
    }
    print("option crashes: \(count) operations; \(before) images before, \(after) after the change")
    #expect(count > 0 && before > 0 && after > 0)
    try engine.close()
  }
}
