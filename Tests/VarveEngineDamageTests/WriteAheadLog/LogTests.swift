import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the log alone: appended records are read back, a torn tail is cut, and damage is reported.
struct LogTests {
  private let first = FileNumber(1)

  /// Returns all bytes of one file.
  private func content(_ fileSystem: any FileSystem, _ number: FileNumber) throws -> [UInt8] {
    let file = try fileSystem.openFile(path(number), writable: false)
    defer { file.close() }
    let block = try FileContents(reading: file, size: Int(try file.size()))
    return block.view.bytes
  }

  private func path(_ number: FileNumber) -> String { LogHarness.directory + "/" + FileName.log(number).name }

  private func overwrite(_ fileSystem: any FileSystem, _ number: FileNumber, _ bytes: [UInt8]) throws {
    let file = try fileSystem.openFile(path(number), writable: true)
    defer { file.close() }
    try file.truncate(to: 0)
    try unsafe bytes.withUnsafeBytes { try unsafe file.write($0, at: 0) }
  }

  @Test(arguments: [true, false])
  func `batches are read back in order, over several segments`(mapping: Bool) throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem, mapping: mapping)
    for index in 0..<2_000 { try log.append(valueSize: 8 + index % 300) }
    #expect(try LogHarness.recover(fileSystem, oldest: first).sequences == Array(1...2_000))
    try log.close()
    let recovered = try LogHarness.recover(fileSystem, oldest: first)
    #expect(recovered.sequences == Array(1...2_000))
    #expect(recovered.outcome.chain.count > 5)
  }

  @Test func `mapped and unmapped writing give the same bytes`() throws {
    var images: [[UInt8]] = []
    for mapping in [true, false] {
      let fileSystem = MemoryFileSystem()
      let log = try LogHarness(on: fileSystem, mapping: mapping)
      for index in 0..<50 {
        try log.append(valueSize: 8 + index)
        if index % 7 == 0 { try log.sync() }
      }
      images.append(try content(fileSystem, first))
    }
    #expect(images[0] == images[1])
  }

  @Test func `a batch larger than a segment gets a segment of its own size`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    try log.append()
    try log.append(valueSize: 300_000)
    try log.append()
    try log.close()
    #expect(try LogHarness.recover(fileSystem, oldest: first).sequences == [1, 2, 3])
  }

  @Test func `a segment without a durable mark that is cut at any length reads as a prefix`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    var ends: [Int] = []
    for index in 0..<20 {
      try log.append(valueSize: 8 + index * 3)
      ends.append(log.writer.current(.beforeOpen).tail)
    }
    let whole = try content(fileSystem, first)
    for length in LogFormat.headerBlockSize...(ends.last ?? 0) {
      try overwrite(fileSystem, first, Array(whole[..<length]))
      let count = ends.count { $0 <= length }
      #expect(try LogHarness.recover(fileSystem, oldest: first).sequences == Array(1...20).prefix(count).map { $0 })
    }
  }

  @Test func `a flip below a durable mark is damage, and a flip above it cuts the log at that record`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    var ends: [Int] = []
    func append() throws {
      try log.append()
      ends.append(log.writer.current(.beforeOpen).tail)
    }
    for _ in 0..<5 { try append() }
    try log.sync()
    let promised = log.writer.current(.beforeOpen).tail
    for _ in 0..<5 { try append() }
    let whole = try content(fileSystem, first)
    // The sixth record contains the durable mark: without it, the damage could not be detected.
    for bit in 0..<((ends.last ?? 0) * 8) {
      // Of the header block, only one bit of each byte is flipped: all bits would take eight times as long, and find
      // no more.
      if bit < LogFormat.headerBlockSize * 8, bit % 8 != (bit / 8) % 8 { continue }
      var damaged = whole
      damaged[bit / 8] ^= 1 << UInt8(bit % 8)
      try overwrite(fileSystem, first, damaged)
      let readable = ends.count { $0 <= bit / 8 }
      if bit / 8 < promised {
        #expect(throws: EngineError.self, "bit \(bit)") { try LogHarness.recover(fileSystem, oldest: first) }
      } else {
        let found = try LogHarness.recover(fileSystem, oldest: first).sequences
        #expect(found == Array(1...10).prefix(readable).map { $0 }, "bit \(bit)")
      }
    }
  }

  @Test func `after a clean close every flip is damage`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    for _ in 0..<5 { try log.append() }
    try log.close()
    // The state that the MANIFEST has after a clean close.
    let link = try #require(try LogHarness.recover(fileSystem, oldest: first).outcome.chain.last)
    let cuts = [first: LogRecovery.Cut(lifeID: link.lifeID, end: UInt64(link.end))]
    let whole = try content(fileSystem, first)
    #expect(link.end == whole.count)
    for byte in whole.indices {
      var damaged = whole
      damaged[byte] ^= 0x10
      try overwrite(fileSystem, first, damaged)
      #expect(throws: EngineError.self, "byte \(byte)") {
        try LogHarness.recover(fileSystem, oldest: first, cuts: cuts)
      }
    }
  }

  @Test func `records of an earlier life of a segment are never replayed`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem, segmentSize: 8 << 10)
    var oldest = first
    for round in 0..<300 {
      for _ in 0..<20 { try log.append() }
      log.executor.runAll()
      // Everything before the current segment is in tables now: its files are reused.
      oldest = log.writer.currentNumber
      log.writer.release(before: oldest)
      let found = try LogHarness.recover(fileSystem, oldest: oldest).sequences
      let appended = log.appended.map(\.sequence)
      #expect(found == Array(appended.suffix(found.count)), "round \(round)")
      #expect(found.count <= 500, "round \(round)")
    }
    let pooled = try fileSystem.list(LogHarness.directory).count { $0.hasSuffix(".pool") }
    #expect(pooled > 0)
  }

  @Test func `a record that an earlier recovery cut is not read again`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    for _ in 0..<10 { try log.append() }
    let cut = log.writer.current(.beforeOpen).tail
    // A torn tail: the eleventh record is damaged, and the twelfth would be readable.
    try log.append()
    let whole = try content(fileSystem, first)
    var torn = whole
    torn[cut + 40] ^= 1
    try overwrite(fileSystem, first, torn)
    let recovered = try LogHarness.recover(fileSystem, oldest: first)
    #expect(recovered.outcome.chain.last?.end == cut)
    let next = try LogHarness(on: fileSystem, recovered: recovered)
    try next.append()
    try next.close()
    // The torn record stays cut even if it is complete again (because the device returned it late).
    try overwrite(fileSystem, first, whole)
    let link = try #require(recovered.outcome.chain.last)
    let cuts = [first: LogRecovery.Cut(lifeID: link.lifeID, end: UInt64(link.end))]
    #expect(try LogHarness.recover(fileSystem, oldest: first, cuts: cuts).sequences == Array(1...11))
  }

  @Test func `a sync up to a segment keeps the records before it and its header, and marks no record durable`() throws {
    let disk = CrashFileSystem(seed: 1)
    let log = try LogHarness(on: disk)
    let first = log.writer.currentNumber
    var before: UInt64 = 0
    while log.writer.currentNumber.value < first.value + 3 {
      before = log.appended.last?.sequence ?? 0
      try log.append(valueSize: 900)
    }
    let current = log.writer.currentNumber
    for _ in 0..<5 { try log.append(valueSize: 900) }
    guard case .durable = log.writer.trySync(.segment(current), visible: { .zero }) else {
      Issue.record("the sync failed")
      return
    }
    #expect(log.writer.durableSequence == .zero)
    try log.append()
    let lost = disk.crashImage(seed: 1, policy: .loseAllUnsynced)
    #expect(try LogHarness.recover(lost, oldest: first).sequences == Array(1...before))
    #expect(try LogHarness.recover(lost, oldest: current).sequences == [])
    for seed in UInt64(0)..<100 {
      let disk = disk.crashImage(seed: seed, policy: .keepRandomSectors)
      let found = try LogHarness.recover(disk, oldest: current).sequences
      #expect(found.elementsEqual((before + 1)..<(before + 1 + UInt64(found.count))), "seed \(seed)")
    }
  }

  @Test func `a missing segment is damage`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    for _ in 0..<2_000 { try log.append() }
    try log.close()
    let chain = try LogHarness.recover(fileSystem, oldest: first).outcome.chain
    for link in chain {
      let copy = try content(fileSystem, link.number)
      try fileSystem.remove(path(link.number))
      if link != chain.last {
        #expect(throws: EngineError.self) { try LogHarness.recover(fileSystem, oldest: first) }
      }
      let file = try fileSystem.createFile(path(link.number))
      try unsafe copy.withUnsafeBytes { try unsafe file.write($0, at: 0) }
      file.close()
    }
    #expect(try LogHarness.recover(fileSystem, oldest: first).sequences.count == 2_000)
  }

  @Test func `a shortened segment is damage if records of the next segment were durable`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    while log.writer.currentNumber == first { try log.append() }
    for _ in 0..<5 { try log.append() }
    try log.sync()
    try log.append()
    let whole = try content(fileSystem, first)
    var shorter = whole
    for index in (LogFormat.headerBlockSize + 640)..<shorter.count { shorter[index] = 0 }
    try overwrite(fileSystem, first, shorter)
    #expect(throws: EngineError.self) { try LogHarness.recover(fileSystem, oldest: first) }
  }

  @Test func `a dump shows every record`() throws {
    let fileSystem = MemoryFileSystem()
    let log = try LogHarness(on: fileSystem)
    for _ in 0..<3 { try log.append(valueSize: 8) }
    try log.sync()
    try log.writer.appendEnd(nextSequence: SequenceNumber(4), .beforeOpen)
    let file = try fileSystem.openFile(path(first), writable: false)
    var lines: [String] = []
    try LogDump.render(file, number: first, name: "log", verify: true) { lines.append($0) }
    #expect(lines.count == 9)
    #expect(lines[1] == "4096 batch sequence 1 durable 4096 size 15")
    #expect(lines[2] == #"  1 put family 0 "key" = "\x01\x00\x00\x00\x00\x00\x00\x00""#)
    #expect(lines[7].hasPrefix("4240 end durable 4240"))
  }
}
