import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A writer of a hot, a cold, a tiny and a volatile family, whose log is so short that it logs the cold families again
/// all the time, and whose commits are recorded. It can die, and another one continue.
///
/// Its file system is `base`, through which its calls can fail. Readers use file systems of their own on `base`.
final class FollowedWriter {
  let base: any FileSystem
  let path: String
  let session: MachineSession?
  private let seed: UInt64
  private var openCount: UInt64 = 0
  private(set) var faults: FaultInjectingFileSystem
  private(set) var fixture: FollowFixture
  var history = FollowHistory()
  private(set) var serial = 0
  private var pending: [CommitTicket] = []

  var writer: Engine { fixture.writer }
  private func id(_ name: String) -> FamilyID { (try? writer.family(named: name).id) ?? .default }
  private func family(_ name: String) throws -> ColumnFamily { try writer.family(named: name) }

  /// The bytes of the log beyond which families are logged again. Segments have at least a third of that.
  var logBytes = 192 << 10 {
    didSet { writer.core.pipeline.logBytesMaximum = logBytes }
  }
  /// The number of checkpoints so far, for their names.
  var checkpointCount = 0

  /// Whether the writers store to the log through mappings.
  private let mapsFiles: Bool

  /// Creates a database. With `isNotified`, its writers share a page with readers.
  init(
    seed: UInt64 = 1, isNotified: Bool, mapsFiles: Bool = true, on base: any FileSystem = MemoryFileSystem(),
    at path: String = "/db"
  ) throws {
    self.base = base
    self.path = path
    self.seed = seed
    self.mapsFiles = mapsFiles
    session = isNotified && base is MemoryFileSystem ? MachineSession(high: 7, low: 8) : nil
    faults = FaultInjectingFileSystem(base, mapsFiles: mapsFiles, session: session)
    fixture = try FollowFixture(faults, at: path, seed: seed)
    writer.core.pipeline.logBytesMaximum = logBytes
    for name in ["cold", "tiny"] { history.add([.create(try writer.createFamily(name).id)], at: .zero) }
    var options = FamilyOptions()
    options.isVolatile = true
    history.volatile.insert(try writer.createFamily("volatile", options: options).id)
    for name in ["loose1", "loose2"] { history.loose.append(try writer.createFamily(name).id) }
  }

  /// A file system for a reader, whose calls are counted.
  func makeReaderFiles() -> FaultInjectingFileSystem { FaultInjectingFileSystem(base, session: session) }

  /// The number of segments that the writer keeps for readers alone.
  var segmentCountForReaders: Int {
    writer.core.pipeline.log.state.withLock { state in state.live.count { $0.number < state.needed } }
  }

  // MARK: - Work

  /// Commits one batch to the hot, the tiny and the volatile family, and with `isCold` a row that is never written
  /// again.
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

  /// Creates a family of merges: an operand that a reader applied twice, or not at all, would be noticed.
  func createAppendedFamily() throws {
    let family = try writer.createFamily("appended", options: FamilyOptions(mergeOperator: "varve.append"))
    history.add([.create(family.id)], at: history.lastSequence)
  }

  /// Commits a random batch of up to six entries.
  func appendRandom(_ random: inout SeededRandom) throws {
    serial += 1
    var batch = WriteBatch()
    var changes: [FollowHistory.Change] = []
    let families = writer.families.filter { !history.loose.contains($0.id) && !history.volatile.contains($0.id) }
    for _ in 0..<1 + random.below(6) {
      let family = random.oneIn(3) ? writer.defaultFamily : families[random.below(families.count)]
      // The rows of the cold family are written once.
      let key = Array((family.name == "cold" ? "\(serial)" : "key\(10 + random.below(40))").utf8)
      switch family.name == "cold" ? 9 : random.below(20) {
      case 0..<2:
        try batch.delete(key, in: family)
        changes.append(.delete(family.id, key))
      case 2:
        let end = Array("key\(10 + random.below(40))".utf8)
        let isUp = key.lexicographicallyPrecedes(end)
        try batch.deleteRange(from: isUp ? key : end, to: isUp ? end : key, in: family)
        changes.append(.deleteRange(family.id, from: isUp ? key : end, to: isUp ? end : key))
      case 3..<9 where family.name == "appended":
        try batch.merge(key, [UInt8(truncatingIfNeeded: serial)], in: family)
        changes.append(.append(family.id, key, [UInt8(truncatingIfNeeded: serial)]))
      default:
        let size = family.id != .default ? 8 : random.oneIn(30) ? 9_000 : random.below(2_000)
        let value = Array("\(serial)".utf8) + [UInt8](repeating: UInt8(truncatingIfNeeded: serial), count: size)
        try batch.put(key, value, in: family)
        changes.append(.put(family.id, key, value))
      }
    }
    if random.oneIn(4) { try batch.put(Array("\(serial % 7)".utf8), [1], in: try family("volatile")) }
    let ticket = try writer.submit(batch, durability: random.oneIn(12) ? .power : .process)
    // A range that is empty is left out, and a batch of volatile entries alone may not survive.
    if ticket.isLogged { history.add(changes, at: ticket.sequence) }
    try ticket.wait()
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
    do throws(EngineError) { try ticket.wait() } catch {
      // The commit is visible. No error is thrown if the fault has met the sync of a new segment instead.
      guard error.code == .outcomeUnknown else { throw error }
    }
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
    kill()
    try open()
  }

  /// Ends the writer as a kill does. The page shows that its process is gone.
  func dieVisibly() throws {
    kill()
    guard session != nil else { return }
    let page = try base.openFile(path + "/SHARED", writable: true)
    defer { page.close() }
    // No system has so large a process id.
    try page.write([0, 0, 0, 0x40, 0, 0, 0, 0], at: 56)
  }

  /// Opens a writer after the last one has ended.
  func open() throws {
    faults = FaultInjectingFileSystem(base, mapsFiles: mapsFiles, session: session)
    // No two writers draw the same ids.
    openCount += 1
    fixture = try FollowFixture(faults, at: path, seed: seed &+ openCount &* 0x9E37_79B9)
    writer.core.pipeline.logBytesMaximum = logBytes
  }

  /// Ends the writer as a kill does.
  func kill() {
    faults.kill()
    pending = []
    // The jobs keep the engine alive.
    fixture.executor.shutDown()
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

  /// Returns what is wrong with the state that a reader, or a writer after its opening, shows, or `nil` if it equals
  /// one prefix of the commits.
  func fault(_ engine: Engine) throws -> String? {
    let snapshot = engine.snapshot()
    let expected = history.state(at: snapshot.sequence)
    return history.fault(in: try Self.content(engine, snapshot), expected).map { "at \(snapshot.sequence): \($0)" }
  }
}
