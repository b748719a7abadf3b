import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// A writer of a hot, a cold, a tiny and a volatile family, whose log is so short that it logs the cold families again
/// all the time, and whose commits are recorded. It can die, and another one continue.
///
/// Its file system is `base`, through which its calls can fail. Readers use file systems of their own on `base`.
final class FollowedWriter {
  let base: any FileSystem
  let path: String
  let session: MachineSession?
  private(set) var faults: FaultInjectingFileSystem
  private(set) var fixture: FollowFixture
  var history = FollowHistory()
  private(set) var serial = 0
  private var pending: [CommitTicket] = []

  var writer: Engine { fixture.writer }
  private func id(_ name: String) -> FamilyID { (try? writer.family(named: name).id) ?? .default }
  private func family(_ name: String) throws -> ColumnFamily { try writer.family(named: name) }

  /// The bytes of the log beyond which families are logged again: three segments.
  static let logBytes = 192 << 10

  /// Creates a database in memory. With `isNotified`, its writers share a page with readers.
  init(seed: UInt64 = 1, isNotified: Bool, on base: any FileSystem = MemoryFileSystem(), at path: String = "/db") throws {
    self.base = base
    self.path = path
    session = isNotified ? MachineSession(high: 7, low: 8) : nil
    faults = FaultInjectingFileSystem(base, session: session)
    fixture = try FollowFixture(faults, at: path, seed: seed)
    writer.core.pipeline.logBytesMaximum = Self.logBytes
    for name in ["cold", "tiny"] { history.add([.create(try writer.createFamily(name).id)], at: .zero) }
    var options = FamilyOptions()
    options.isVolatile = true
    history.volatile.insert(try writer.createFamily("volatile", options: options).id)
    for name in ["loose1", "loose2"] { history.loose.append(try writer.createFamily(name).id) }
  }

  /// A file system for a reader, whose calls are counted.
  func makeReaderFiles() -> FaultInjectingFileSystem { FaultInjectingFileSystem(base, session: session) }

  // MARK: - Work

  /// Commits one batch to the hot, the tiny and the volatile family, and with `isCold` a row that is never written again.
  @discardableResult
  func append(isCold: Bool = false, size: Int = 3_000, durability: Durability = .process) throws -> SequenceNumber {
    var batch = WriteBatch()
    let changes = try fill(&batch, isCold: isCold, size: size)
    let sequence = try writer.write(batch, durability: durability)
    history.add(changes, at: sequence)
    return sequence
  }

  private func fill(_ batch: inout WriteBatch, isCold: Bool, size: Int) throws -> [FollowHistory.Change] {
    serial += 1
    let number = Array("\(serial)".utf8)
    let hot = Array("hot \(serial % 40)".utf8)
    let value = number + [UInt8](repeating: 0, count: size)
    try batch.put(hot, value)
    try batch.put(Array("last".utf8), number, in: try family("tiny"))
    try batch.put(hot, number, in: try family("volatile"))
    var changes: [FollowHistory.Change] = [
      .put(.default, hot, value), .put(id("tiny"), Array("last".utf8), number),
    ]
    if isCold {
      try batch.put(number, number, in: try family("cold"))
      changes.append(.put(id("cold"), number, number))
    }
    return changes
  }

  /// Commits a batch that survives a loss of power, but does not wait for that.
  func appendPending() throws {
    var batch = WriteBatch()
    let changes = try fill(&batch, isCold: true, size: 100)
    let ticket = try writer.submit(batch, durability: .power)
    history.add(changes, at: ticket.sequence)
    pending.append(ticket)
  }

  /// Waits for the syncs of these commits.
  func settlePending() throws {
    for ticket in pending { try ticket.wait() }
    pending = []
  }

  /// Commits a pair of rows that are not logged.
  func appendLoose() throws {
    serial += 1
    var batch = WriteBatch()
    for name in ["loose1", "loose2"] { try batch.put(Array("\(serial)".utf8), [1], in: try family(name)) }
    try writer.write(batch, durability: Durability.none)
  }

  /// Appends batches, with background jobs in between, until entries were logged again and a segment was freed.
  func cycle() throws {
    let copied = writer.core.pipeline.bytesLoggedAgain
    let oldest = writer.core.tree.state.oldestLog
    var count = 0
    while writer.core.pipeline.bytesLoggedAgain == copied || writer.core.tree.state.oldestLog == oldest {
      try append(isCold: count % 8 == 0)
      count += 1
      if count % 4 == 0 { fixture.executor.runAll() }
      try #require(count < 3_000, "the log is never logged again")
    }
    fixture.executor.runAll()
  }

  /// A commit whose sync fails, after which the log continues in another segment.
  func failSync() throws {
    faults.inject(Fault([.sync], pathSuffix: ".log"))
    var batch = WriteBatch()
    let changes = try fill(&batch, isCold: true, size: 100)
    let ticket = try writer.submit(batch, durability: .power)
    history.add(changes, at: ticket.sequence)
    #expect(throws: EngineError.self) { try ticket.wait() }
    try append(isCold: true)
  }

  private func manifestNumber() throws -> FileNumber {
    try Manifest.currentNumber(directory: path, fileSystem: base)
  }

  func rollManifest() throws {
    let number = try manifestNumber()
    for _ in 0..<20 {
      try writer.dropFamily(try writer.createFamily(String(repeating: "n", count: 200)))
    }
    writer.core.tree.rollForClose()
    try #require(try manifestNumber() > number)
  }

  func createFamily() throws {
    serial += 1
    let made = try writer.createFamily("made \(serial)")
    history.add([.create(made.id)], at: history.lastSequence)
    var batch = WriteBatch()
    try batch.put([1], [1], in: made)
    try batch.put(Array("made".utf8), [UInt8(truncatingIfNeeded: serial)])
    let sequence = try writer.write(batch)
    history.add(
      [.put(made.id, [1], [1]), .put(.default, Array("made".utf8), [UInt8(truncatingIfNeeded: serial)])], at: sequence)
  }

  func dropFamily() throws {
    guard let made = writer.families.first(where: { $0.name.hasPrefix("made") }) else { return }
    try writer.dropFamily(made)
    history.add([.drop(made.id)], at: history.lastSequence)
  }

  // MARK: - Ends

  /// Closes the writer, and opens another one.
  func reopen() throws {
    pending = []
    try writer.close()
    try open()
  }

  /// Ends the writer as a kill does, and opens another one.
  func die() throws {
    faults.kill()
    pending = []
    try open()
  }

  /// Ends the writer as a kill does. The page shows that its process is gone.
  func dieVisibly() throws {
    faults.kill()
    guard session != nil else { return }
    let page = try base.openFile(path + "/SHARED", writable: true)
    defer { page.close() }
    // No system has so large a process id.
    try page.write([0, 0, 0, 0x40, 0, 0, 0, 0], at: 56)
  }

  private func open() throws {
    faults = FaultInjectingFileSystem(base, session: session)
    fixture = try FollowFixture(faults, at: path, seed: UInt64(serial))
    writer.core.pipeline.logBytesMaximum = Self.logBytes
  }

  // MARK: - Comparison

  /// Returns the rows of all families that a reader shows at a snapshot.
  static func content(_ engine: Engine, _ snapshot: EngineSnapshot) throws -> [FamilyID: FollowHistory.Rows] {
    var result: [FamilyID: FollowHistory.Rows] = [:]
    for family in engine.families {
      var rows: FollowHistory.Rows = [:]
      var cursor = try engine.cursor(in: family, snapshot: snapshot)
      try cursor.seekToFirst()
      while cursor.isValid {
        rows[cursor.keyBytes] = cursor.valueBytes
        try cursor.next()
      }
      result[family.id] = rows
    }
    return result
  }

  /// Returns what is wrong with the state that a reader shows, or `nil` if it equals one prefix of the commits.
  func fault(_ engine: Engine) throws -> String? {
    let snapshot = engine.snapshot()
    let expected = history.state(at: snapshot.sequence)
    return history.fault(in: try Self.content(engine, snapshot), expected).map { "at \(snapshot.sequence): \($0)" }
  }
}
