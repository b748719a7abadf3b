import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// Tests of flipped bits and truncated files of whole databases: each damage is found, and no read returns a wrong
/// result.
///
/// With a `VARVE_TEST_SCALE` of 8 or more, every bit is flipped; below that, one bit of each byte, drawn from the
/// seed. In a sector of zeros, only one bit is flipped in either case.
struct DatabaseDamageTests {
  private static let seed: UInt64 = 9_001
  private static let sectorSize = 512

  /// A bit of a file.
  private struct Flip: CustomStringConvertible {
    let name: String
    let offset: Int
    let bit: Int
    var description: String { "\(name) byte \(offset) bit \(bit)" }
  }

  /// Returns the bits of a file that are flipped in this run.
  private static func flips(_ name: String, _ bytes: [UInt8], _ random: inout SeededRandom) -> [Flip] {
    var flips: [Flip] = []
    for start in stride(from: 0, to: bytes.count, by: sectorSize) {
      let sector = start..<min(start + sectorSize, bytes.count)
      if sector.allSatisfy({ bytes[$0] == 0 }) {
        flips.append(Flip(name: name, offset: sector.lowerBound + random.below(sector.count), bit: random.below(8)))
        continue
      }
      for offset in sector {
        if TestScale.value >= 8 {
          flips += (0..<8).map { Flip(name: name, offset: offset, bit: $0) }
        } else {
          flips.append(Flip(name: name, offset: offset, bit: random.below(8)))
        }
      }
    }
    return flips
  }

  /// Flips a bit, passes the file system to `body`, and flips the bit back.
  private static func with(
    _ flip: Flip, of image: DirectoryImage, on fileSystem: MemoryFileSystem, _ body: () throws -> Void
  ) throws {
    guard let old = image.files[flip.name]?[flip.offset] else { return }
    let file = try fileSystem.openFile(DirectoryImage.path(flip.name), writable: true)
    defer { file.close() }
    try [old ^ (1 << UInt8(flip.bit))].withByteView { (view) throws(EngineError) in
      try unsafe file.write(view.buffer, at: UInt64(flip.offset))
    }
    try body()
    try [old].withByteView { (view) throws(EngineError) in
      try unsafe file.write(view.buffer, at: UInt64(flip.offset))
    }
  }

  /// Returns the range of the last mark of a MANIFEST. It contains no data, so damage to it has no effect
  /// (`ManifestFormat`). It is the only position in a closed database at which a flipped bit is harmless.
  private static func lastMark(_ image: DirectoryImage) throws -> Range<Int> {
    let name = try image.only(prefix: "MANIFEST-")
    let bytes = image.files[name] ?? []
    return try bytes.withByteView { view in
      guard let number = FileName(name)?.number else { return 0..<0 }
      var reader = try ManifestReader(view, number: number, file: name)
      while try reader.next() != nil {}
      guard case .marked(let offset) = reader.ending else { return 0..<0 }
      return Int(offset)..<Int(offset) + ManifestFormat.recordHeaderSize
    }
  }

  /// Returns the number of bytes at the beginning of a table that are data blocks.
  private static func dataSize(_ bytes: [UInt8]) throws -> Int {
    try bytes.withByteView { (view) throws(EngineError) in
      let size = UInt64(view.count)
      let end = view.dropFirst(view.count - TableFormat.footerSize)
      return Int(try TableFooter(end, fileSize: size, path: "").dataSize)
    }
  }

  private static func expectNone(
    _ failures: [String], seed: UInt64? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let first = failures.prefix(10).joined(separator: "\n")
    #expect(
      failures.isEmpty, "seed \(seed.map { "\($0)" } ?? "none"), \(failures.count) failures: \(first)",
      sourceLocation: sourceLocation)
  }

  // MARK: - Flipped bits of a closed database

  @Test func `no flipped bit of a closed database goes unnoticed or gives a wrong answer`() throws {
    let fixture = try DamageFixture(.closed)
    let fileSystem = try fixture.image.makeFileSystem()
    #expect(try DamageOutcome(reading: fileSystem, expecting: fixture.state).isSound)
    let mark = try Self.lastMark(fixture.image)
    #expect(mark.count == ManifestFormat.recordHeaderSize, "a closed database ends with a mark")
    var random = SeededRandom(seed: Self.seed)
    var failures: [String] = []
    for (name, bytes) in fixture.image.files.sorted(by: { $0.key < $1.key }) {
      let dataSize = name.hasSuffix(".sst") ? try Self.dataSize(bytes) : 0
      var (byOpen, byRead, byVerify, harmless) = (0, 0, 0, 0)
      let flips = Self.flips(name, bytes, &random)
      for flip in flips {
        try Self.with(flip, of: fixture.image, on: fileSystem) {
          let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state)
          if let wrong = outcome.wrongAnswer { failures.append("\(flip): wrong answer: \(wrong)") }
          if outcome.openError != nil { byOpen += 1 }
          if !outcome.readErrors.isEmpty { byRead += 1 }
          if !outcome.faults.isEmpty { byVerify += 1 }
          if name.hasPrefix("MANIFEST-") && mark.contains(flip.offset) {
            harmless += 1
            if !outcome.isSound { failures.append("\(flip): a mark holds nothing, yet \(outcome)") }
          } else if let failure = Self.undetected(flip, outcome, isData: flip.offset < dataSize) {
            failures.append("\(flip): \(failure)")
          }
        }
      }
      print(
        "\(name): \(bytes.count) bytes, \(flips.count) flips; found by open \(byOpen), by a read \(byRead), by verify \(byVerify); harmless \(harmless)"
      )
    }
    #expect(
      failures.isEmpty, "seed \(Self.seed), \(failures.count) failures: \(failures.prefix(10).joined(separator: "\n"))")
    #expect(try DirectoryImage(fileSystem) == fixture.image, "reading has changed the directory")
  }

  /// Returns a description of what is wrong with the way in which damage was found, or `nil` if it is right.
  private static func undetected(_ flip: Flip, _ outcome: DamageOutcome, isData: Bool) -> String? {
    if let error = outcome.openError {
      guard error.code == .corruption else { return "the wrong code: \(error)" }
      guard let file = error.file else { return "no file is named: \(error)" }
      // A damaged CURRENT may name another MANIFEST, which does not exist.
      guard file.hasSuffix(flip.name) || flip.name == "CURRENT" else { return "the wrong file: \(error)" }
      return nil
    }
    guard outcome.faults.contains(where: { $0.file?.hasSuffix(flip.name) == true }) else {
      return "not found by verify: \(outcome.faults)"
    }
    if isData && outcome.readErrors.isEmpty { return "not found by the reads that meet it" }
    let isNamed = outcome.readErrors.allSatisfy { $0.code == .corruption && $0.file?.hasSuffix(flip.name) == true }
    return isNamed ? nil : "errors of reads that don't name it: \(outcome.readErrors.prefix(3))"
  }

  @Test func `opening a damaged database for writing fails and changes no file, or gives every row`() throws {
    let fixture = try DamageFixture(.closed)
    var random = SeededRandom(seed: Self.seed + 1)
    let mark = try Self.lastMark(fixture.image)
    var failures: [String] = []
    var (refused, opened) = (0, 0)
    for (name, bytes) in fixture.image.files.sorted(by: { $0.key < $1.key }) where !name.hasSuffix(".sst") {
      for flip in Self.flips(name, bytes, &random)
      where TestScale.value >= 8 || mark.contains(flip.offset) || random.oneIn(4) {
        var image = fixture.image
        image.files[name]?[flip.offset] ^= 1 << UInt8(flip.bit)
        let fileSystem = try image.makeFileSystem()
        do throws(EngineError) {
          let engine = try Engine.open(
            at: DirectoryImage.directory, options: DamageFixture.options(),
            environment: DirectoryImage.environment(fileSystem, seed: 3))
          opened += 1
          try engine.close()
        } catch {
          refused += 1
          if try DirectoryImage(fileSystem) != image {
            failures.append("\(flip): the directory was changed, and then \(error)")
          }
          continue
        }
        let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state)
        if !outcome.isSound { failures.append("\(flip): \(outcome)") }
      }
    }
    print("opened to write: \(refused) refused, \(opened) harmless")
    #expect(opened > 0 && refused > 0)
    #expect(
      failures.isEmpty,
      "seed \(Self.seed + 1), \(failures.count) failures: \(failures.prefix(10).joined(separator: "\n"))")
  }

  @Test func `damage that is done to an open database is found by verify`() throws {
    let fixture = try DamageFixture(.closed)
    let fileSystem = try fixture.image.makeFileSystem()
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: DamageFixture.options(),
      environment: DirectoryImage.environment(fileSystem, seed: 3))
    for index in 0..<20 {
      try engine.put(DamageFixture.key(index), [1, 2, 3], durability: index == 9 ? .power : .process)
    }
    #expect(try engine.verify().faults.isEmpty)
    let image = try DirectoryImage(fileSystem)
    let mark = try Self.lastMark(image)
    let last = try LastSegment(image)
    var random = SeededRandom(seed: Self.seed + 4)
    var failures: [String] = []
    var counts: [String: Int] = [:]
    for (name, bytes) in image.files.sorted(by: { $0.key < $1.key }) {
      // A segment is checked up to the end of its records; a prepared one has none.
      let isLog = name.hasSuffix(".log")
      if isLog && name > last.name { continue }
      let size = name == last.name ? last.end : bytes.count
      for flip in Self.flips(name, Array(bytes[..<size]), &random) where TestScale.value >= 8 || random.oneIn(3) {
        if name.hasPrefix("MANIFEST-"), mark.contains(flip.offset) { continue }
        counts[name, default: 0] += 1
        try Self.with(flip, of: image, on: fileSystem) {
          let faults = try engine.verify().faults
          let isFound = faults.contains { $0.file?.hasSuffix(name) == true || name == "CURRENT" }
          if !isFound || faults.count != 1 { failures.append("\(flip): \(faults)") }
        }
      }
    }
    let counted = counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
    print("damaged while open: \(counted.joined(separator: ", "))")
    #expect(counts.count >= 5)
    Self.expectNone(failures, seed: Self.seed + 4)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  // MARK: - A killed database

  /// The last segment: its records, their ends, and the highest durable mark among them.
  private struct LastSegment {
    let name: String
    let capacity: Int
    var records: [(offset: Int, end: Int, header: LogRecordHeader)] = []
    var durableMark = 0
    var end = LogFormat.headerBlockSize

    init(_ image: DirectoryImage) throws {
      guard let name = image.names(suffix: ".log").last(where: { image.files[$0]?.contains { $0 != 0 } == true }),
        let bytes = image.files[name], let number = FileName(name)?.number
      else { throw EngineError(.invalidArgument, "the fixture has no log") }
      self.name = name
      capacity = bytes.count
      let fileSystem = try image.makeFileSystem()
      let file = try fileSystem.openFile(DirectoryImage.path(name), writable: false)
      guard var reader = try LogReader.open(file, number: number, name: name) else { return }
      while let record = reader.next() {
        records.append((record.offset, record.offset + record.header.recordSize, record.header))
      }
      durableMark = Int(reader.durableMark)
      end = reader.offset
    }

    /// Returns the content without the record that contains `offset`, and without those after it.
    func state(cutAt offset: Int, _ fixture: DamageFixture) -> ModelDatabase.State {
      guard let first = records.first(where: { $0.end > offset && $0.header.kind == .batch }) else {
        return fixture.state
      }
      return fixture.state(before: first.header.sequence.value)
    }
  }

  @Test(arguments: [DamageFixture.Ending.killed, .killedUnsynced])
  func `a flip after the last durable mark of a killed database cuts the log at that record`(
    ending: DamageFixture.Ending
  ) throws {
    let fixture = try DamageFixture(ending)
    let segment = try LastSegment(fixture.image)
    #expect(segment.records.count >= 10)
    // The header was synced when the segment began, and each record contains that durable mark.
    #expect((segment.durableMark > LogFormat.headerBlockSize) == (ending == .killed))
    let fileSystem = try fixture.image.makeFileSystem()
    #expect(try DamageOutcome(reading: fileSystem, expecting: fixture.state).isSound)
    var random = SeededRandom(seed: Self.seed + 2)
    var failures: [String] = []
    var (refused, cut, unchanged) = (0, 0, 0)
    for flip in Self.flips(segment.name, fixture.image.files[segment.name] ?? [], &random) {
      let isDamage = flip.offset < segment.durableMark
      let expected = segment.state(cutAt: flip.offset, fixture)
      try Self.with(flip, of: fixture.image, on: fileSystem) {
        let outcome = try DamageOutcome(reading: fileSystem, expecting: expected, verifies: false)
        if isDamage {
          refused += 1
          if outcome.openError?.code != .corruption { failures.append("\(flip): promised, but \(outcome)") }
          if outcome.openError?.file?.hasSuffix(segment.name) != true { failures.append("\(flip): \(outcome)") }
        } else {
          if flip.offset >= segment.end { unchanged += 1 } else { cut += 1 }
          if !outcome.isSound { failures.append("\(flip): not as the cut: \(outcome)") }
        }
      }
    }
    print("\(ending): \(refused) flips refused, \(cut) read as the cut, \(unchanged) as if nothing was")
    #expect(cut > 0 && unchanged > 0)
    #expect(
      failures.isEmpty,
      "seed \(Self.seed + 2), \(failures.count) failures: \(failures.prefix(10).joined(separator: "\n"))")
  }

  @Test(arguments: [DamageFixture.Ending.killed, .killedUnsynced])
  func `a flip in a segment that an earlier recovery cut is found`(ending: DamageFixture.Ending) throws {
    let fixture = try DamageFixture(ending)
    let last = try LastSegment(fixture.image).name
    let fileSystem = try fixture.image.makeFileSystem()
    var random = SeededRandom(seed: Self.seed + 3)
    var failures: [String] = []
    var count = 0
    for name in fixture.image.names(suffix: ".log") where name < last {
      for flip in Self.flips(name, fixture.image.files[name] ?? [], &random) {
        count += 1
        try Self.with(flip, of: fixture.image, on: fileSystem) {
          let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state, verifies: false)
          if outcome.openError?.code != .corruption { failures.append("\(flip): \(outcome)") }
        }
      }
    }
    #expect(count > 0)
    #expect(
      failures.isEmpty,
      "seed \(Self.seed + 3), \(failures.count) failures: \(failures.prefix(10).joined(separator: "\n"))")
  }

  @Test func `a flip in a segment that was just cut is found, though nothing was written after it`() throws {
    let fixture = try DamageFixture(.killedUnsynced)
    let segment = try LastSegment(fixture.image)
    #expect(segment.durableMark <= LogFormat.headerBlockSize)
    let recovered = try fixture.image.makeFileSystem()
    let engine = try Engine.open(
      at: "/db", options: DamageFixture.options(), environment: DirectoryImage.environment(recovered))
    let image = try DirectoryImage(recovered)
    try engine.close()
    let fileSystem = try image.makeFileSystem()
    #expect(try DamageOutcome(reading: fileSystem, expecting: fixture.state).isSound)
    var failures: [String] = []
    for record in segment.records {
      let flip = Flip(name: segment.name, offset: record.offset + 9, bit: 3)
      try Self.with(flip, of: image, on: fileSystem) {
        let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state, verifies: false)
        if outcome.openError?.code != .corruption { failures.append("\(flip): \(outcome)") }
      }
    }
    #expect(failures.isEmpty, "\(failures.count) of \(segment.records.count): \(failures.prefix(3))")
  }

  // MARK: - Cut files

  @Test(arguments: DamageFixture.Ending.allCases)
  func `the last segment of the log cut at any length is read up to its last whole record, or refused`(
    ending: DamageFixture.Ending
  ) throws {
    let fixture = try DamageFixture(ending)
    let segment = try LastSegment(fixture.image)
    let bytes = fixture.image.files[segment.name] ?? []
    var image = fixture.image
    var failures: [String] = []
    var lengths = Array(0..<min(segment.end + 64, bytes.count))
    lengths += stride(from: segment.end + 64, to: bytes.count, by: Self.sectorSize)
    for length in lengths {
      image.files[segment.name] = Array(bytes[..<length])
      let fileSystem = try image.makeFileSystem()
      let expected = segment.state(cutAt: length, fixture)
      let outcome = try DamageOutcome(reading: fileSystem, expecting: expected, verifies: false)
      if ending == .closed {
        // The MANIFEST contains the end of the segment: no record may be missing.
        if outcome.openError?.code != .corruption { failures.append("cut to \(length): \(outcome)") }
      } else if !outcome.isSound {
        failures.append("cut to \(length): \(outcome)")
      }
    }
    print("\(ending): \(segment.name) cut to \(lengths.count) lengths")
    Self.expectNone(failures)
  }

  @Test(arguments: DamageFixture.Ending.allCases)
  func `a MANIFEST cut at any length is refused, or no row is missing`(ending: DamageFixture.Ending) throws {
    let fixture = try DamageFixture(ending)
    let name = try fixture.image.only(prefix: "MANIFEST-")
    let bytes = fixture.image.files[name] ?? []
    var image = fixture.image
    var failures: [String] = []
    var (refused, whole) = (0, 0)
    for length in 0..<bytes.count {
      image.files[name] = Array(bytes[..<length])
      let fileSystem = try image.makeFileSystem()
      let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state, verifies: false)
      if outcome.openError == nil { whole += 1 } else { refused += 1 }
      let isRight = outcome.openError.map { $0.code == .corruption && $0.file != nil } ?? outcome.isSound
      if !isRight { failures.append("cut to \(length): \(outcome)") }
    }
    print("\(ending): \(name) cut to \(bytes.count) lengths: \(refused) refused, \(whole) with nothing missing")
    #expect(refused > 0 && whole > 0)
    Self.expectNone(failures)
  }

  @Test func `a new database whose MANIFEST is cut at any length has its row or is damage`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Engine.open(at: "/db", environment: DirectoryImage.environment(fileSystem))
    try engine.put([1], [2])
    try engine.close()
    let name = try #require(try fileSystem.list("/db").first { $0.hasPrefix("MANIFEST-") })
    let image = try DirectoryImage(fileSystem, at: "/db")
    let bytes = try #require(image.files[name])
    for length in 0..<bytes.count {
      var cut = image
      cut.files[name] = Array(bytes[..<length])
      let copy = try cut.makeFileSystem()
      do throws(EngineError) {
        let engine = try Engine.open(at: DirectoryImage.directory, environment: DirectoryImage.environment(copy))
        #expect(try engine.get([1]) == [2], "cut to \(length)")
        try engine.close()
      } catch {
        #expect(error.code == .corruption, "cut to \(length)")
      }
    }
  }
}
