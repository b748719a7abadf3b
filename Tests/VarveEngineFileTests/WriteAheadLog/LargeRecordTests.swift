import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of records that are written piece by piece, because their payload is large.
struct LargeRecordTests {
  private static let sizes = [-1, 0, 1, 2, 3, 7, 8, 9].map { Limits.largeSize + $0 }

  /// Encodes a record in memory, as `LogFormat` describes it.
  private static func record(
    _ payload: [UInt8], sequence: UInt64, durableMark: UInt64, lifeID: UInt64, offset: Int
  ) -> [UInt8] {
    let seed = CRC32C.seed(lifeID, UInt64(offset))
    var header = ByteWriter()
    header.append(integer: UInt32(payload.count))
    header.append(integer: sequence)
    header.append(integer: durableMark)
    header.append(integer: payload.withByteView { CRC32C.extend(seed, $0) })
    header.append(integer: UInt32(LogFormat.RecordKind.batch.rawValue))
    var record = ByteWriter()
    record.append(integer: CRC32C.extend(seed, header.view))
    record.append(header.view)
    record.append(payload)
    record.pad(to: 8)
    return record.bytes
  }

  private static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
    var random = SeededRandom(seed: seed)
    return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  @Test(arguments: [true, false], sizes)
  func `a record in pieces has the bytes of one that is assembled in memory`(mapping: Bool, size: Int) throws {
    let disk = MemoryFileSystem()
    let log = try LogHarness(on: disk, mapping: mapping, segmentSize: 4 << 20)
    let writer = log.writer
    let segment = writer.current(.beforeOpen)
    let payload = Self.bytes(size, seed: UInt64(size))
    var expected: [UInt8] = []
    for (index, headSize) in [0, 1, 70_000].enumerated() {
      let offset = segment.tail
      let sequence = UInt64(index + 1)
      expected += Self.record(
        payload, sequence: sequence, durableMark: UInt64(segment.durable), lifeID: segment.lifeID, offset: offset)
      try payload.withByteView { (payload) throws(EngineError) in
        let position =
          headSize == 0
          ? try writer.append(sequence: SequenceNumber(sequence), payload: payload, .beforeOpen)
          : try writer.append(
            sequence: SequenceNumber(sequence), head: payload.slice(0, headSize), body: payload.dropFirst(headSize),
            .beforeOpen)
        #expect(position == segment.publishedInLog)
      }
      #expect(segment.tail == offset + LogFormat.recordSize(payloadSize: size))
    }
    let file = try disk.openFile("\(LogHarness.directory)/\(FileName.log(segment.number).name)", writable: false)
    var found = [UInt8](repeating: 0, count: expected.count)
    _ = try file.read(into: &found, at: UInt64(LogFormat.headerBlockSize))
    #expect(found == expected)
  }

  @Test(arguments: [true, false])
  func `after a crash at any piece of a large record the log ends before it or has the whole of it`(
    mapping: Bool
  ) throws {
    struct Found: Sendable {
      var points: [(crash: CrashPoint, appended: UInt64, synced: UInt64)] = []
      var appended: UInt64 = 0
      var synced: UInt64 = 0
    }
    let disk = CrashFileSystem(seed: 5, mapsFiles: mapping)
    let log = try LogHarness(on: disk, seed: 5, mapping: mapping, segmentSize: 4 << 20)
    let oldest = log.writer.currentNumber
    let shared = Mutex(Found())
    // A segment is zeroed in many pieces, so only the operations on the log's records are observed.
    disk.observe { operation, capture in
      let isZeroing = operation.size == SegmentPool.zeroPieceSize
      if isZeroing { return }
      let point = capture()
      shared.withLock { $0.points.append((point, $0.appended, $0.synced)) }
    }
    var number: UInt64 = 0
    // The third large record does not fit, and gets a segment of its own.
    for (size, syncs) in [(40, true), ((1 << 20) + 1, false), (40, false), ((2 << 20) + 5, true), (9 << 19, false)] {
      try log.append(valueSize: size)
      number += 1
      shared.withLock { $0.appended = number }
      if syncs {
        try log.sync()
        shared.withLock { $0.synced = number }
      }
    }
    disk.observe(nil)
    let points = shared.withLock { $0.points }
    #expect(points.count >= 12)
    for (index, point) in points.enumerated() {
      for policy in CrashPolicy.allCases {
        let image = point.crash.image(seed: UInt64(index), policy: policy)
        let found = try LogHarness.recover(image, oldest: oldest).sequences
        let least = policy == .processKill ? point.appended : point.synced
        let location = "point \(index), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy)"
        #expect(found == Array(1..<UInt64(found.count + 1)), "\(location)")
        #expect(UInt64(found.count) >= least && UInt64(found.count) <= point.appended + 1, "\(location)")
      }
    }
    print("large records, mapping \(mapping): \(points.count) points")
  }

  /// The cursor of a follower, in an object that a closure can use.
  private final class Reader: @unchecked Sendable {
    // Sendable: used by the thread of the test alone.
    var tail: LogTail
    var found: [SequenceNumber] = []

    init(_ fileSystem: any FileSystem) { tail = LogTail(directory: LogHarness.directory, fileSystem: fileSystem) }

    func read() throws(EngineError) {
      while let record = try tail.record(before: nil) {
        found.append(record.header.sequence)
        tail.advance(over: record)
      }
    }
  }

  @Test func `a follower that reads between the pieces of a record sees it only when it is complete`() throws {
    let disk = HookedFileSystem()
    let log = try LogHarness(on: disk, mapping: false, segmentSize: 4 << 20)
    let reader = Reader(disk)
    let hasBegun = try reader.tail.begin(at: log.writer.currentNumber)
    #expect(hasBegun)
    try log.append()
    try reader.read()
    #expect(reader.found == [SequenceNumber(1)])
    let counts = Mutex<[Int]>([])
    disk.hook { _, _ in
      try? reader.read()
      counts.withLock { $0.append(reader.found.count) }
      return .whole
    }
    try log.append(valueSize: 3 << 20)
    // The hook is called before each write.
    let seen = counts.withLock { $0 }
    #expect(seen.count >= 2)
    #expect(seen.allSatisfy { $0 == 1 }, "\(seen)")
    disk.hook(nil)
    try reader.read()
    #expect(reader.found == [SequenceNumber(1), SequenceNumber(2)])
  }

  @Test func `the memory of a large record that a follower has read is released with the next read`() throws {
    let disk = MemoryFileSystem()
    let log = try LogHarness(on: disk, mapping: false, segmentSize: 8 << 20)
    let account = MemoryAccount()
    var tail = LogTail(directory: LogHarness.directory, fileSystem: disk, account: account)
    let hasBegun = try tail.begin(at: log.writer.currentNumber)
    #expect(hasBegun)
    try log.append(valueSize: 6 << 20)
    let found = try tail.record(before: nil)
    let record = try #require(found)
    #expect(account.used >= 6 << 20)
    tail.advance(over: record)
    let none = try tail.record(before: nil)
    #expect(none == nil)
    #expect(account.used <= 1 << 20)
  }

  @Test(arguments: [HookedFileSystem.Effect.part(1 << 20), .part(0), .whole])
  func `after a write that fails in the middle of a record the next record has its position`(
    effect: HookedFileSystem.Effect
  ) throws {
    for failing in 0..<3 {
      let disk = HookedFileSystem()
      let log = try LogHarness(on: disk, mapping: false, segmentSize: 8 << 20)
      let oldest = log.writer.currentNumber
      try log.append()
      let tail = log.writer.current(.beforeOpen).tail
      let written = Mutex(0)
      disk.hook { _, _ in
        let number = written.withLock { count in
          defer { count += 1 }
          return count
        }
        return number == failing ? .failing(effect) : .whole
      }
      // The value has an odd size, so that there is padding, which is a piece as well.
      let error = #expect(throws: EngineError.self) { try log.append(valueSize: (3 << 20) + 1) }
      #expect(error?.code == .noSpace)
      disk.hook(nil)
      #expect(log.writer.current(.beforeOpen).tail == tail)
      let afterFailure = try LogHarness.recover(disk, oldest: oldest).sequences
      // A header that was written although its write failed completes the record.
      #expect(afterFailure == [1] || (afterFailure == [1, 2] && failing == 2))
      try log.append(valueSize: 100)
      try log.append(valueSize: (3 << 20) + 1)
      #expect(try LogHarness.recover(disk, oldest: oldest).sequences == [1, 2, 3])
    }
  }

  @Test func `a wrong byte of a large record is damage once it was durable, and a torn end before`() throws {
    for isDurable in [true, false] {
      let disk = MemoryFileSystem()
      let log = try LogHarness(on: disk, mapping: false, segmentSize: 8 << 20)
      let number = log.writer.currentNumber
      try log.append()
      let start = log.writer.current(.beforeOpen).tail
      try log.append(valueSize: 3 << 20)
      if isDurable {
        try log.sync()
        // The next record states that those before it are durable.
        try log.append()
      }
      let path = "\(LogHarness.directory)/\(FileName.log(number).name)"
      for offset in [start + 5, start + LogFormat.recordHeaderSize + 1, start + (2 << 20), start + (3 << 20)] {
        let file = try disk.openFile(path, writable: true)
        var byte: [UInt8] = [0]
        _ = try file.read(into: &byte, at: UInt64(offset))
        try file.write([byte[0] ^ 0x10], at: UInt64(offset))
        if isDurable {
          let error = #expect(throws: EngineError.self) { try LogHarness.recover(disk, oldest: number) }
          #expect(error?.code == .corruption)
        } else {
          #expect(try LogHarness.recover(disk, oldest: number).sequences == [1])
        }
        try file.write(byte, at: UInt64(offset))
        file.close()
      }
      #expect(try LogHarness.recover(disk, oldest: number).sequences.count == (isDurable ? 3 : 2))
    }
  }
}
