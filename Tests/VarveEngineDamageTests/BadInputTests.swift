import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// Tests of inputs that are missing, foreign, of another version, or out of bounds: each gives a clear error that
/// names the cause, and changes nothing.
struct BadInputTests {
  private static let path = DirectoryImage.directory

  private static func open(
    _ fileSystem: any FileSystem, _ change: (inout EngineOptions) -> Void = { _ in }
  ) throws(EngineError) -> Engine {
    var options = DamageFixture.options()
    change(&options)
    return try Engine.open(at: path, options: options, environment: DirectoryImage.environment(fileSystem, seed: 5))
  }

  /// Checks that opening fails with a code and words, names a file, and does not change the directory.
  private static func expectRefusal(
    of image: DirectoryImage, _ code: EngineError.Code, file: String, _ words: String...,
    sourceLocation: SourceLocation = #_sourceLocation, change: (inout EngineOptions) -> Void = { _ in }
  ) throws {
    let fileSystem = try image.makeFileSystem()
    let error = #expect(throws: EngineError.self, sourceLocation: sourceLocation) {
      try open(fileSystem, change)
    }
    check(error, code, file: file, words, sourceLocation)
    #expect(try DirectoryImage(fileSystem) == image, "the directory was changed", sourceLocation: sourceLocation)
  }

  private static func check(
    _ error: EngineError?, _ code: EngineError.Code, file: String?, _ words: [String], _ sourceLocation: SourceLocation
  ) {
    guard let error else { return }
    #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    if let file { #expect(error.file == file, "\(error)", sourceLocation: sourceLocation) }
    for word in words { #expect(error.message.contains(word), "\(error)", sourceLocation: sourceLocation) }
  }

  private static func expectError(
    _ code: EngineError.Code, _ words: String..., sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
  ) {
    let error = #expect(throws: EngineError.self, sourceLocation: sourceLocation, performing: body)
    check(error, code, file: nil, words, sourceLocation)
  }

  // MARK: - The directory

  @Test func `a missing directory is named, and not made`() throws {
    let fileSystem = MemoryFileSystem()
    for readOnly in [false, true] {
      let error = #expect(throws: EngineError.self) {
        try Self.open(fileSystem) {
          $0.createIfMissing = readOnly
          $0.readOnly = readOnly
        }
      }
      #expect(error?.code == .notFound)
      #expect(error?.file == Self.path)
      #expect(try fileSystem.list("/").isEmpty)
    }
  }

  @Test func `a directory whose parent is missing is not made`() throws {
    let fileSystem = MemoryFileSystem()
    let error = #expect(throws: EngineError.self) {
      try Engine.open(at: "/a/b", environment: DirectoryImage.environment(fileSystem))
    }
    #expect(error?.code == .notFound)
    #expect(error?.file == "/a/b")
    #expect(try fileSystem.list("/").isEmpty)
  }

  @Test func `a file where the directory should be is left unchanged`() throws {
    let fileSystem = MemoryFileSystem()
    try DirectoryImage.write([1, 2, 3], to: Self.path, on: fileSystem)
    for readOnly in [false, true] {
      let error = #expect(throws: EngineError.self) { try Self.open(fileSystem) { $0.readOnly = readOnly } }
      #expect(error?.code == .notADatabase)
      #expect(error?.file == Self.path)
    }
    let error = #expect(throws: EngineError.self) {
      try Engine.destroy(at: Self.path, environment: DirectoryImage.environment(fileSystem))
    }
    #expect(error?.code == .notADatabase)
    #expect(try fileSystem.attributes(Self.path)?.size == 3)
  }

  @Test func `an open that may not create a database leaves an empty directory empty`() throws {
    let image = try DirectoryImage(emptyOn: MemoryFileSystem())
    try Self.expectRefusal(of: image, .notADatabase, file: Self.path, "CURRENT") { $0.createIfMissing = false }
    try Self.expectRefusal(of: image, .notADatabase, file: Self.path, "CURRENT") { $0.readOnly = true }
  }

  @Test func `a directory with foreign files does not become a database`() throws {
    var image = try DirectoryImage(emptyOn: MemoryFileSystem())
    image.files["notes.txt"] = [1]
    try Self.expectRefusal(of: image, .notADatabase, file: Self.path, "notes.txt")
  }

  @Test func `an open that requires a new database leaves an existing one unchanged`() throws {
    let image = try DamageFixture(.closed).image
    try Self.expectRefusal(of: image, .alreadyExists, file: Self.path) { $0.errorIfExists = true }
  }

  @Test func `a foreign file in a database is left alone and listed by verify`() throws {
    let fixture = try DamageFixture(.closed)
    var image = fixture.image
    // The last ones are spelled almost like names of the engine's files.
    let unknownNames = ["notes.txt", "7.sst", "0000012.log", "MANIFEST-12", "000012.SST"]
    for name in unknownNames { image.files[name] = Array(name.utf8) }
    let fileSystem = try image.makeFileSystem()
    let engine = try Self.open(fileSystem)
    var outcome = try DamageOutcome(reading: MemoryFileSystem(), expecting: fixture.state)
    outcome.openError = nil
    outcome.read(engine, fixture.state)
    #expect(outcome.isSound, "\(outcome)")
    try engine.compact()
    let listed = try engine.verify().faults.compactMap(\.file)
    #expect(listed.sorted() == unknownNames.map(DirectoryImage.path).sorted())
    try engine.close()
    let after = try DirectoryImage(fileSystem)
    for name in unknownNames { #expect(after.files[name] == Array(name.utf8)) }
    // Destroying the database keeps them, too, and the directory with them.
    try Engine.destroy(at: Self.path, environment: DirectoryImage.environment(fileSystem))
    #expect(try fileSystem.list(Self.path).sorted() == unknownNames.sorted())
  }

  // MARK: - Missing and truncated files

  @Test func `a missing or truncated table is named`() throws {
    let fixture = try DamageFixture(.closed)
    for name in fixture.image.names(suffix: ".sst") {
      for readOnly in [false, true] {
        var image = fixture.image
        image.files[name] = nil
        try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path(name), "missing") {
          $0.readOnly = readOnly
        }
        image.files[name] = fixture.image.files[name]?.dropLast(1)
        try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path(name), "bytes instead of") {
          $0.readOnly = readOnly
        }
        image.files[name] = (fixture.image.files[name] ?? []) + [0]
        try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path(name), "bytes instead of") {
          $0.readOnly = readOnly
        }
      }
    }
  }

  @Test func `a missing CURRENT beside tables is damage, and no new database is created`() throws {
    var image = try DamageFixture(.closed).image
    image.files["CURRENT"] = nil
    try Self.expectRefusal(of: image, .corruption, file: Self.path, "CURRENT is missing")
    try Self.expectRefusal(of: image, .corruption, file: Self.path, "CURRENT is missing") { $0.readOnly = true }
    // `destroy` cannot be sure that there is a database either.
    let fileSystem = try image.makeFileSystem()
    Self.expectError(.notADatabase, "CURRENT") {
      try Engine.destroy(at: Self.path, environment: DirectoryImage.environment(fileSystem))
    }
    #expect(try DirectoryImage(fileSystem) == image)
  }

  @Test func `a CURRENT that names no MANIFEST is damage`() throws {
    let fixture = try DamageFixture(.closed)
    var image = fixture.image
    image.files["CURRENT"] = Array("MANIFEST-999999\n".utf8)
    try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path("MANIFEST-999999"), "CURRENT names")
    for text in ["", "\n", "MANIFEST-000001", "MANIFEST-1\n", "../MANIFEST-000001\n", "LOCK\n", "000001.log\n"] {
      image.files["CURRENT"] = Array(text.utf8)
      try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path("CURRENT"), "CURRENT")
    }
    image.files["CURRENT"] = [0xff, 0xfe, 0x0a]
    try Self.expectRefusal(of: image, .corruption, file: DirectoryImage.path("CURRENT"), "CURRENT")
  }

  @Test func `a missing segment of the log is damage`() throws {
    let fixture = try DamageFixture(.closed)
    for name in fixture.image.names(suffix: ".log") {
      var image = fixture.image
      image.files[name] = nil
      let fileSystem = try image.makeFileSystem()
      let error = #expect(throws: EngineError.self) { try Self.open(fileSystem) }
      #expect(error?.code == .corruption, "\(name): \(String(describing: error))")
      #expect(error?.file?.hasSuffix(".log") == true)
      #expect(try DirectoryImage(fileSystem) == image)
    }
  }

  // MARK: - Other versions

  @Test func `a MANIFEST of another version or with an unknown feature is refused by name`() throws {
    let fixture = try DamageFixture(.closed)
    let name = try fixture.image.only(prefix: "MANIFEST-")
    let file = DirectoryImage.path(name)
    func patched(at offset: Int, _ value: UInt8) -> DirectoryImage {
      var image = fixture.image
      image.files[name]?[offset] = value
      image.files[name]?.replaceChecksum(of: 0..<60, at: 60)
      return image
    }
    try Self.expectRefusal(of: patched(at: 8, 2), .unsupportedFormat, file: file, "framing 2")
    try Self.expectRefusal(of: patched(at: 16, 4), .unsupportedFormat, file: file, "features 0x4")
    try Self.expectRefusal(of: patched(at: 23, 0x80), .unsupportedFormat, file: file, "features 0x8")
    let unknown = ~ManifestState.knownFeatures & (ManifestState.knownFeatures + 1)
    for (version, features, words) in [(UInt32(2), UInt64(0), "format"), (1, unknown, "features")] {
      var edit = VersionEdit()
      edit.databaseID = 5
      edit.formatVersion = version
      edit.requiredFeatures = features
      edit.createFamily(0, name: "default", options: FamilyOptions().encoded)
      var payload = ByteWriter()
      edit.encode(appendingTo: &payload)
      var bytes = ByteWriter()
      let header = ManifestFormat.Header(
        requiredFeatures: 0, fileID: 1, databaseID: 5, number: FileName(name)?.number ?? FileNumber(0))
      ManifestFormat.encode(header, appendingTo: &bytes)
      ManifestFormat.encode(
        .snapshot, payload: payload.view, at: UInt64(bytes.count), fileID: 1, appendingTo: &bytes)
      var image = fixture.image
      image.files[name] = bytes.bytes
      try Self.expectRefusal(of: image, .unsupportedFormat, file: file, words)
    }
  }

  @Test func `a log of another version or with an unknown feature is refused by name`() throws {
    let fixture = try DamageFixture(.closed)
    for name in fixture.image.names(suffix: ".log") {
      for (offset, value, words) in [(8, 3, "format version 3"), (12, 2, "features 2"), (72, 2, "transform 2")] {
        var image = fixture.image
        for copy in [0, LogFormat.headerCopyOffset] {
          image.files[name]?[copy + offset] = UInt8(value)
          image.files[name]?.replaceChecksum(of: copy..<copy + 80, at: copy + 80)
        }
        try Self.expectRefusal(of: image, .unsupportedFormat, file: DirectoryImage.path(name), words)
      }
    }
  }

  @Test func `a table of another version or with an unknown feature is refused by the read that needs it`() throws {
    let fixture = try DamageFixture(.closed)
    for name in fixture.image.names(suffix: ".sst") {
      // The bytes are those of the version, the required features, and the transform.
      for (location, value) in [(112, 1), (112, 3), (80, 4), (88, 2)] as [(Int, UInt8)] {
        var image = fixture.image
        image.files[name]?.patchFooter(at: location, value)
        let fileSystem = try image.makeFileSystem()
        let outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state)
        #expect(outcome.openError == nil && outcome.wrongAnswer == nil)
        #expect(!outcome.readErrors.isEmpty, "\(name) at \(location)")
        for error in outcome.readErrors {
          #expect(error.code == .unsupportedFormat, "\(error)")
          #expect(error.file == DirectoryImage.path(name), "\(error)")
        }
        #expect(outcome.faults.contains { $0.file == DirectoryImage.path(name) })
        #expect(try DirectoryImage(fileSystem) == image)
      }
    }
  }

  // MARK: - Limits

  @Test func `a key, a value or a batch over the limit is refused before anything is written`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    let longest = [UInt8](repeating: 7, count: Limits.keySizeMaximum)
    try engine.put(longest, [1])
    try engine.put([], [2])
    let sequence = engine.visibleSequence
    let before = try DirectoryImage(fileSystem)
    let tooLong = longest + [7]
    Self.expectError(.limitExceeded, "key has 65536 bytes", "65535") { try engine.put(tooLong, [1]) }
    Self.expectError(.limitExceeded, "key has 65536 bytes") { try engine.delete(tooLong) }
    Self.expectError(.limitExceeded, "key has 65536 bytes") {
      var batch = WriteBatch()
      defer { #expect(batch.isEmpty && batch.byteCount == 0) }
      try batch.put(tooLong, [1])
    }
    // Only the size of a value is checked: the bytes that follow are fewer.
    Self.expectError(.limitExceeded, "value has 1073741825 bytes", "1073741824") {
      try [UInt8(1)].withByteView { (view) throws(EngineError) in
        _ = try unsafe engine.put([UInt8(1)].span.bytes, RawSpan(_unsafeStart: view.base, byteCount: (1 << 30) + 1))
      }
    }
    Self.expectError(.limitExceeded, "batch has") {
      try [UInt8(1)].withByteView { (view) throws(EngineError) in
        try BatchFormat.checkLimits(key: view, value: view, batchSize: Limits.batchSizeMaximum)
      }
    }
    #expect(engine.visibleSequence == sequence)
    #expect(try DirectoryImage(fileSystem) == before)
    #expect(try engine.get(tooLong) == nil)
    #expect(try engine.get(longest) == [1])
    #expect(try engine.get([]) == [2])
    try engine.close()
  }

  @Test func `an option out of its range is named`() throws {
    let changes: [(String, (inout EngineOptions) -> Void)] = [
      ("memtableSize", { $0.memtableSize = 1 }), ("memtableSize", { $0.memtableSize = 2 << 30 }),
      ("cacheSize", { $0.cacheSize = -1 }), ("blockSize", { $0.blockSize = 0 }),
      ("blockSize", { $0.blockSize = 2 << 20 }), ("bloomBitsPerKey", { $0.bloomBitsPerKey = -1 }),
      ("bloomBitsPerKey", { $0.bloomBitsPerKey = 65 }), ("logSegmentSize", { $0.logSegmentSize = 100 }),
      ("logSegmentSize", { $0.logSegmentSize = 2 << 30 }), ("backgroundThreads", { $0.backgroundThreads = 0 }),
      ("backgroundThreads", { $0.backgroundThreads = 1_000 }), ("memoryBudget", { $0.memoryBudget = 0 }),
      ("openTableCount", { $0.openTableCount = 1 }),
      (
        "readOnly",
        {
          $0.readOnly = true
          $0.errorIfExists = true
        }
      ),
    ]
    let fileSystem = MemoryFileSystem()
    for (name, change) in changes {
      let error = #expect(throws: EngineError.self) { try Self.open(fileSystem, change) }
      #expect(error?.code == .invalidArgument)
      #expect(error?.message.contains(name) == true, "\(String(describing: error))")
      #expect(try fileSystem.list("/").isEmpty)
    }
  }

  // MARK: - Families

  @Test func `a family whose name exists or is invalid is not created`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    let longest = String(repeating: "n", count: 255)
    _ = try engine.createFamily("one")
    _ = try engine.createFamily(longest)
    let before = try DirectoryImage(fileSystem)
    Self.expectError(.alreadyExists, "\"one\"") { _ = try engine.createFamily("one") }
    Self.expectError(.alreadyExists, "\"default\"") { _ = try engine.createFamily("default") }
    Self.expectError(.invalidArgument, "has 0") { _ = try engine.createFamily("") }
    Self.expectError(.invalidArgument, "has 256") { _ = try engine.createFamily(longest + "n") }
    Self.expectError(.invalidArgument, "default") { try engine.dropFamily(engine.defaultFamily) }
    Self.expectError(.unknownFamily, "\"two\"") { _ = try engine.family(named: "two") }
    #expect(engine.families.map(\.name) == ["default", "one", longest])
    #expect(try DirectoryImage(fileSystem) == before)
    try engine.close()
  }

  @Test func `a dropped family can't be read or written`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    let family = try engine.createFamily("gone")
    try engine.put([1], [1])
    try engine.put([1], [2], in: family)
    let snapshot = engine.snapshot()
    try engine.dropFamily(family)
    let before = try DirectoryImage(fileSystem)
    Self.expectError(.familyDropped, "\"gone\"") { try engine.put([1], [3], in: family) }
    Self.expectError(.familyDropped, "\"gone\"") { try engine.delete([1], in: family) }
    Self.expectError(.familyDropped, "\"gone\"") { _ = try engine.get([1], in: family) }
    Self.expectError(.familyDropped, "\"gone\"") { _ = try engine.get([1], in: family, snapshot: snapshot) }
    Self.expectError(.familyDropped, "\"gone\"") { _ = try engine.contains([1], in: family) }
    Self.expectError(.familyDropped, "\"gone\"") { _ = try engine.multiGet([[1]], in: family) }
    Self.expectError(.familyDropped, "\"gone\"") { _ = try engine.cursor(in: family).isValid }
    Self.expectError(.familyDropped, "\"gone\"") { try engine.dropFamily(family) }
    Self.expectError(.unknownFamily, "\"gone\"") { _ = try engine.family(named: "gone") }
    // A batch that names the family fails as a whole.
    Self.expectError(.familyDropped, "\(family.id)") {
      var batch = WriteBatch()
      try batch.put([1], [4])
      try batch.put([1], [4], in: family)
      try engine.write(batch)
    }
    #expect(try engine.get([1]) == [1])
    #expect(try DirectoryImage(fileSystem) == before)
    try engine.close()
  }

  // MARK: - Read-only

  @Test(arguments: DamageFixture.Ending.allCases)
  func `a read-only engine reads every entry, refuses every write, and changes no file`(ending: DamageFixture.Ending)
    throws
  {
    let fixture = try DamageFixture(ending)
    let fileSystem = try fixture.image.makeFileSystem()
    let engine = try Self.open(fileSystem) { $0.readOnly = true }
    var outcome = try DamageOutcome(reading: fileSystem, expecting: fixture.state)
    outcome.read(engine, fixture.state)
    #expect(outcome.isSound, "\(outcome)")
    let family = try engine.family(named: "other")
    let attempts: [() throws -> Void] = [
      { try engine.put([1], [1]) }, { try engine.delete([1]) }, { try engine.put([1], [1], durability: .power) },
      { try engine.put([1], [1], durability: Durability.none) },
      {
        var batch = WriteBatch()
        try batch.put([1], [1])
        try engine.write(batch)
      },
      {
        var batch = WriteBatch()
        try batch.put([1], [1])
        _ = try engine.submit(batch)
      },
      { _ = try engine.createFamily("new") }, { try engine.dropFamily(family) }, { try engine.flush() },
      { try engine.compact() }, { try engine.sync() }, { try engine.waitForCompaction() },
    ]
    for (index, attempt) in attempts.enumerated() {
      let error = #expect(throws: EngineError.self, "attempt \(index)", performing: attempt)
      #expect(error?.code == .readOnly, "attempt \(index): \(String(describing: error))")
      #expect(error?.file == Self.path, "attempt \(index)")
    }
    try engine.close()
    #expect(try DirectoryImage(fileSystem) == fixture.image)
    // Without a lock file, none is created.
    var image = fixture.image
    image.files["LOCK"] = nil
    let unlocked = try image.makeFileSystem()
    #expect(try DamageOutcome(reading: unlocked, expecting: fixture.state).isSound)
    #expect(try DirectoryImage(unlocked) == image)
  }

  // MARK: - Destroying

  @Test func `a directory that does not contain a database is not destroyed`() throws {
    let fileSystem = MemoryFileSystem()
    let environment = DirectoryImage.environment(fileSystem)
    Self.expectError(.notFound) { try Engine.destroy(at: Self.path, environment: environment) }
    try fileSystem.createDirectory(Self.path)
    try DirectoryImage.write([1], to: DirectoryImage.path("000001.sst"), on: fileSystem)
    let before = try DirectoryImage(fileSystem)
    Self.expectError(.notADatabase, "CURRENT") { try Engine.destroy(at: Self.path, environment: environment) }
    #expect(try DirectoryImage(fileSystem) == before)
  }

  @Test func `an open database is not destroyed`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    try engine.put([1], [1])
    let before = try DirectoryImage(fileSystem)
    Self.expectError(.locked) {
      try Engine.destroy(at: Self.path, environment: DirectoryImage.environment(fileSystem))
    }
    #expect(try DirectoryImage(fileSystem) == before)
    try engine.close()
    try Engine.destroy(at: Self.path, environment: DirectoryImage.environment(fileSystem))
    #expect(try fileSystem.list("/").isEmpty)
  }

  // MARK: - A second open

  @Test func `a second open in this process is refused, and the first stays usable`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let engine = try Engine.open(at: path)
    try engine.put([1], [1])
    let error = #expect(throws: EngineError.self) { try Engine.open(at: path) }
    #expect(error?.code == .locked)
    #expect(error?.file == path + "/LOCK")
    try engine.put([1], [2])
    #expect(try engine.get([1]) == [2])
    try engine.close()
    let again = try Engine.open(at: path)
    #expect(try again.get([1]) == [2])
    try again.close()
  }

  @Test func `a second open in another process is refused, and the first stays usable`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let engine = try Engine.open(at: path)
    try engine.put([1], [1])
    await #expect(processExitsWith: .exitCode(42)) { [path = path as String] in
      do {
        _ = try Engine.open(at: path)
      } catch let error as EngineError where error.code == .locked && error.file == path + "/LOCK" {
        exit(42)
      }
    }
    try engine.put([1], [2])
    #expect(try engine.get([1]) == [2])
    try engine.close()
    await #expect(processExitsWith: .success) { [path = path as String] in
      let other = try Engine.open(at: path)
      #expect(try other.get([1]) == [2])
      try other.close()
    }
  }

  // MARK: - Programmer's mistakes

  @Test func `a call that can't throw stops the program after a close`() async {
    await #expect(processExitsWith: .failure) {
      let engine = try Engine.open(at: "/db", environment: .inMemory())
      try engine.close()
      try engine.close()  // A second close does nothing.
      _ = engine.snapshot()
      exit(EXIT_SUCCESS)
    }
    await #expect(processExitsWith: .failure) {
      let engine = try Engine.open(at: "/db", environment: .inMemory())
      try engine.close()
      _ = engine.visibleSequence
      exit(EXIT_SUCCESS)
    }
    await #expect(processExitsWith: .failure) {
      let engine = try Engine.open(at: "/db", environment: .inMemory())
      try engine.close()
      _ = engine.statistics
      exit(EXIT_SUCCESS)
    }
  }

  @Test func `a family of another engine stops the program`() async {
    await #expect(processExitsWith: .failure) {
      let first = try Engine.open(at: "/db", environment: .inMemory())
      let second = try Engine.open(at: "/db", environment: .inMemory())
      let family = try first.createFamily("of the first")
      _ = try second.createFamily("of the second")
      _ = try second.get([1], in: family)
      exit(EXIT_SUCCESS)
    }
    await #expect(processExitsWith: .failure) {
      let first = try Engine.open(at: "/db", environment: .inMemory())
      let second = try Engine.open(at: "/db", environment: .inMemory())
      try second.put([1], [1], in: first.defaultFamily)
      exit(EXIT_SUCCESS)
    }
  }
}

extension DirectoryImage {
  /// Creates the image of a new and empty directory.
  fileprivate init(emptyOn fileSystem: MemoryFileSystem) throws {
    try fileSystem.createDirectory(Self.directory)
    try self.init(fileSystem)
  }
}

extension [UInt8] {
  /// Stores the CRC-32C of a range at an offset.
  fileprivate mutating func replaceChecksum(of range: Range<Int>, at offset: Int) {
    store(Array(self[range]).withByteView { CRC32C.checksum($0) }, at: offset)
  }

  /// Changes a byte of a table's footer, and updates the checksum.
  fileprivate mutating func patchFooter(at location: Int, _ value: UInt8) {
    let start = count - TableFormat.footerSize
    self[start + location] = value
    let checksum = Array(self[start...]).withByteView { footer in
      CRC32C.extend(CRC32C.extend(0, footer.slice(0, 116)), footer.slice(120, 128))
        ^ CRC32C.seed(footer.load(0, as: UInt64.self), footer.load(8, as: UInt64.self))
    }
    store(checksum, at: start + 116)
  }

  private mutating func store(_ checksum: UInt32, at offset: Int) {
    for index in 0..<4 { self[offset + index] = UInt8(truncatingIfNeeded: checksum >> UInt32(index * 8)) }
  }
}
