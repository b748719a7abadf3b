import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of replacing damaged databases.
struct ReplacementTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() throws { directory = try TemporaryDirectory() }

  // MARK: - Creating and damaging

  /// Stores rows, which have metadata only if requested.
  private func fill(_ path: String, flushes: Bool = false, metadata: Bool = false) throws {
    let open = OpenDatabase(try Database.open(at: path), nil)
    try open.writing { tx throws in
      for key in 0..<10 {
        try tx.set("row \(key)", key: key, in: "rows", metadata: metadata ? "about \(key)" : nil)
      }
    }
    if flushes { try flush(open) }
  }

  private func flush(_ open: OpenDatabase) throws {
    let backend = try #require(open.database.core.backend as? EngineBackend)
    try backend.engine.flush()
  }

  private func files(_ prefix: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path).filter { $0.hasPrefix(prefix) }.map { path + "/" + $0 }
  }

  private func damage(_ file: String, _ change: (inout Data) -> Void) throws {
    var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    change(&bytes)
    try bytes.write(to: URL(fileURLWithPath: file))
  }

  private func damageManifest() throws {
    for file in try files("MANIFEST") {
      try damage(file) { bytes in for index in bytes.indices where index % 16 == 12 { bytes[index] ^= 0xff } }
    }
  }

  private func options(_ policy: CorruptionPolicy) -> DatabaseOptions {
    var options = DatabaseOptions()
    options.onCorruption = policy
    return options
  }

  private func open(_ policy: CorruptionPolicy = .fail, at other: String? = nil) throws -> OpenDatabase {
    OpenDatabase(try Database.open(at: other ?? path, options: options(policy)), nil)
  }

  private func keys(_ open: OpenDatabase) throws -> [Int] {
    try open.reading { tx throws in
      let keys = try tx.keys(Int.self, in: "rows")
      #expect(try tx.count(in: "rows") == keys.count)
      for key in keys { #expect(try tx.object(String.self, key: key, in: "rows") == "row \(key)") }
      return keys
    }
  }

  private func feed(_ open: OpenDatabase, after location: CommitVersion) throws -> [ChangeEvent] {
    try open.database.feed(after: location)
  }

  private func names() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
  }

  // MARK: - Salvaged contents

  @Test(arguments: [false, true], [false, true])
  func `rows are salvaged from tables and log, with and without metadata, if the MANIFEST is damaged`(
    flushes: Bool, metadata: Bool
  ) throws {
    try fill(path, flushes: flushes, metadata: metadata)
    try damageManifest()
    let saved = try open(.salvage)
    #expect(try keys(saved) == Array(0..<10))
    try saved.reading { tx throws in
      #expect(try tx.metadata(String.self, key: 3, in: "rows") == (metadata ? "about 3" : nil))
    }
    #expect(try names() == ["db", "db.1.corrupt"])
  }

  @Test func `collections with their own families are salvaged without metadata too`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("rows", String.self, key: Int.self, storage: .own())
    }
    do {
      let open = OpenDatabase(try Database.open(at: path, definition: definition), nil)
      try open.writing { tx in for key in 0..<10 { try tx.set("row \(key)", key: key, in: "rows") } }
      try flush(open)
    }
    try damageManifest()
    let saved = OpenDatabase(try Database.open(at: path, definition: definition, options: options(.salvage)), nil)
    #expect(try keys(saved) == Array(0..<10))
  }

  @Test func `a row whose metadata is lost is kept without it`() throws {
    try fill(path, metadata: true)
    let engine = try Engine.open(at: path)
    let metadata = try #require(engine.families.first { $0.name == "metadata" })
    var cursor = try engine.cursor(in: metadata)
    try cursor.seekToFirst()
    try engine.delete(cursor.keyBytes, in: metadata)
    try engine.close()
    _ = try DatabaseReplacement(path: path, options: EngineOptions(), clock: .system).run(saves: true)
    let saved = try open()
    #expect(try keys(saved) == Array(0..<10))
    try saved.reading { tx throws in
      #expect(try tx.metadata(String.self, key: 0, in: "rows") == nil)
      #expect(try tx.row(key: 0, in: "rows")?.hasMetadata == false)
      #expect(try tx.metadata(String.self, key: 1, in: "rows") == "about 1")
    }
  }

  private struct Wide: Codable, Equatable { var width = 1, height = 2 }
  private struct Tall: Codable, Equatable { var height = 3, width = 4 }

  @Test func `shape and version numbers that the catalog has lost are not reused`() throws {
    let definition = DatabaseDefinition {
      BookFormat.self
    }
    let book = Book(id: UUID(), title: "t", authors: [])
    do {
      let open = OpenDatabase(try Database.open(at: path, definition: definition), nil)
      try open.writing { tx throws in
        try tx.set(Wide(), key: 1, in: "sizes")
        try Store<BookFormat>(in: open.database).persist(book, in: tx)
      }
    }
    let engine = try Engine.open(at: path)
    let catalog = try #require(engine.families.first { $0.name == "catalog" })
    var cursor = try engine.cursor(in: catalog)
    try cursor.seekToFirst()
    var lost = 0
    while cursor.isValid {
      let key = cursor.keyBytes
      if key.first == CatalogKey.shapes[0] || key.first == CatalogKey.versions[0] {
        try engine.delete(key, in: catalog)
        lost += 1
      }
      try cursor.next()
    }
    #expect(lost >= 4)
    try engine.close()
    _ = try DatabaseReplacement(path: path, options: EngineOptions(), clock: .system).run(saves: true)
    let saved = OpenDatabase(try Database.open(at: path, definition: definition), nil)
    let books = Store<BookFormat>(in: saved.database)
    try saved.writing { tx throws in
      try tx.set(Tall(), key: 2, in: "sizes")
      #expect(throws: DatabaseError.self) { try tx.object(Wide.self, key: 1, in: "sizes") }
      #expect(throws: DatabaseError.self) { try tx.object(Tall.self, key: 1, in: "sizes") }
      #expect(try tx.object(Tall.self, key: 2, in: "sizes") == Tall())
      try books.persist(Book(id: UUID(), title: "new", authors: []), in: tx)
      #expect(errorCode { _ = try books.load(book.id, in: tx) } == .unsupportedVersion)
    }
  }

  @Test func `a salvage is refused and moves no file if nothing is left of the catalog`() throws {
    try fill(path, flushes: true)
    let engine = try Engine.open(at: path)
    let catalog = try #require(engine.families.first { $0.name == "catalog" })
    var cursor = try engine.cursor(in: catalog)
    try cursor.seekToFirst()
    while cursor.isValid {
      try engine.delete(cursor.keyBytes, in: catalog)
      try cursor.next()
    }
    try engine.close()
    try damageManifest()
    for _ in 0..<2 { #expect(errorCode { _ = try open(.salvage) } == .corruption) }
    #expect(try names() == ["db"])
    #expect(try keys(try open(.renameAside)).isEmpty)
  }

  // MARK: - Scope of the policy

  @Test(arguments: [CorruptionPolicy.fail, .renameAside, .salvage])
  func `corruption of the catalog's tables is corruption of the database`(policy: CorruptionPolicy) throws {
    try fill(path, flushes: true)
    let tables = try files("").filter { $0.hasSuffix(".sst") }
    #expect(!tables.isEmpty)
    for table in tables { try damage(table) { bytes in for index in 0..<16 { bytes[index] ^= 0xff } } }
    switch policy {
    case .fail:
      #expect(errorCode { _ = try open(.fail) } == .corruption)
      #expect(try names() == ["db"])
    case .renameAside:
      #expect(try keys(try open(policy)).isEmpty)
      #expect(try names() == ["db", "db.1.corrupt"])
    case .salvage:
      // Small tables have one block, so nothing can be read, and nothing is removed.
      #expect(errorCode { _ = try open(policy) } == .corruption)
      #expect(try names() == ["db"])
    }
  }

  @Test(arguments: [CorruptionPolicy.renameAside, .salvage])
  func `a program that does not create databases still replaces damaged ones`(policy: CorruptionPolicy) throws {
    try fill(path)
    try damageManifest()
    var options = options(policy)
    options.createsIfMissing = false
    for _ in 0..<2 {
      let open = OpenDatabase(try Database.open(at: path, options: options), nil)
      #expect(try keys(open) == (policy == .salvage ? Array(0..<10) : []))
    }
  }

  @Test func `a path that ends with a slash is the same path`() throws {
    try fill(path + "/")
    try damageManifest()
    #expect(try keys(try open(.salvage, at: path + "//")) == Array(0..<10))
    #expect(try names() == ["db", "db.1.corrupt"])
  }

  @Test func `a read-only program replaces nothing`() throws {
    try fill(path)
    try damageManifest()
    var options = options(.salvage)
    options.isReadOnly = true
    #expect(errorCode { _ = try Database.open(at: path, options: options) } == .corruption)
    #expect(try names() == ["db"])
  }

  @Test func `other programs get an error and replace nothing while one program replaces a database`() throws {
    try fill(path)
    try damageManifest()
    let replacement = DatabaseReplacement(path: path, options: EngineOptions(), clock: .system)
    try replacement.exclusively {
      #expect(errorCode { _ = try open(.salvage) } == .locked)
      #expect(errorCode { _ = try open(.renameAside) } == .locked)
    }
    #expect(try names() == ["db"])
    #expect(try keys(try open(.salvage)) == Array(0..<10))
    #expect(try names() == ["db", "db.1.corrupt"])
  }

  // MARK: - Followers of the changes

  @Test(arguments: [CorruptionPolicy.renameAside, .salvage])
  func `a reader with a saved feed position receives a gap, at once and later`(policy: CorruptionPolicy) throws {
    try fill(path)
    let location = try withExtendedLifetime(try open()) { try $0.database.core.backend.snapshot().version }
    try damageManifest()
    let replaced = try open(policy)
    for round in 0..<3 {
      let missed = try replaced.database.core.backend.snapshot().version
      #expect(missed > location)
      let events = try feed(replaced, after: location)
      guard case .gap(from: location, to: _)? = events.first else {
        Issue.record("round \(round): \(events)")
        continue
      }
      try replaced.writing { tx in try tx.set("row \(round)", key: round, in: "rows") }
    }
  }

  // MARK: - Crashes

  @Test func `a crash at any moment of a replacement leaves the damaged database or the new one`() throws {
    let source = CrashFileSystem(seed: 3)
    func environment(_ disk: CrashFileSystem) -> EngineEnvironment {
      let clock = ManualClock()
      let random = Mutex(SeededRandom(seed: 9))
      return EngineEnvironment(
        fileSystem: disk, clock: clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in SteppedExecutor(seed: 4, clock: clock) })
    }
    func open(_ disk: CrashFileSystem) throws -> OpenDatabase {
      let core = try DiskOpening("/db", DatabaseDefinition(), options(.salvage), environment: environment(disk)).run()
      return OpenDatabase(Database(core), nil)
    }
    do {
      let filled = try open(source)
      try filled.writing { tx in for key in 0..<10 { try tx.set("row \(key)", key: key, in: "rows") } }
      try flush(filled)
      try filled.writing { tx in try tx.set("row 10", key: 10, in: "rows") }
      try filled.database.core.close()
    }
    for name in try source.list("/db") where name.hasPrefix("MANIFEST") {
      let file = try source.openFile("/db/" + name, writable: true)
      unsafe try [UInt8](repeating: 0xff, count: 64).withUnsafeBytes { unsafe try file.write($0, at: 4) }
      try file.sync()
      file.close()
    }
    let points = Mutex<[CrashPoint]>([])
    source.observe { _, capture in points.withLock { $0.append(capture()) } }
    #expect(try keys(try open(source)) == Array(0...10))
    source.observe(nil)
    var images = 0
    for (index, point) in points.withLock({ $0 }).enumerated() {
      for policy in CrashPolicy.allCases {
        let image = point.image(seed: UInt64(index), policy: policy)
        let again = try open(image)
        #expect(try keys(again) == Array(0...10), "operation \(point.operation.map { "\($0)" } ?? "none"), \(policy)")
        images += 1
      }
    }
    print("replacement crashes: \(images / CrashPolicy.allCases.count) operations, \(images) images")
    #expect(images > 100)
  }
}
