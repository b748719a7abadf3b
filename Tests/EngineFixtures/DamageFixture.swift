import EngineTestSupport
import Testing

@testable import VarveEngine

/// A small database with every structure that can be damaged: two families, tables on two levels, a log segment that
/// a recovery cut, one that follows it, and a MANIFEST of many edits.
struct DamageFixture {
  typealias Change = ModelDatabase.Change

  /// The way in which the database ended.
  enum Ending: CaseIterable {
    /// `close` was called.
    case closed
    /// The process died after commits of which some were synced and some were not.
    case killed
    /// The process died, and no commit was synced since the database was opened.
    case killedUnsynced
  }

  let image: DirectoryImage
  /// The content after each commit, by the commit's last sequence, ascending.
  let history: [(sequence: UInt64, state: ModelDatabase.State)]

  var state: ModelDatabase.State { history.last?.state ?? ModelDatabase().state }

  /// Returns the content without the commits from `sequence` on.
  func state(before sequence: UInt64) -> ModelDatabase.State {
    history.last { $0.sequence < sequence }?.state ?? ModelDatabase().state
  }

  static func options(readOnly: Bool = false) -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 256 << 10
    options.logSegmentSize = 64 << 10
    options.blockSize = 1 << 10
    options.createIfMissing = !readOnly
    options.readOnly = readOnly
    return options
  }

  static func key(_ index: Int) -> [UInt8] { Array("key\(1000 + index)".utf8) }

  init(_ ending: Ending) throws {
    let fileSystem = MemoryFileSystem()
    var history: [(sequence: UInt64, state: ModelDatabase.State)] = []
    var model = ModelDatabase()
    var random = SeededRandom(seed: 77)
    try Self.withEngine(fileSystem, 1) { engine in
      let other = try engine.createFamily("other")
      model.createFamily("other")
      func commit(_ changes: [Change], _ durability: Durability = .process) throws {
        try Self.commit(changes, engine, other, durability, &model, &history)
      }
      for index in 0..<40 {
        try commit([.put("default", Self.key(index), Self.value(&random))])
        if index % 3 == 0 { try commit([.put("other", Self.key(index), Self.value(&random))]) }
      }
      try engine.compact()
      for index in 0..<12 { try commit([.put("default", Self.key(index * 3), Self.value(&random))]) }
      try commit([.delete("default", Self.key(5)), .delete("other", Self.key(3))])
      try engine.flush()
      try commit([.put("default", Self.key(50), Self.value(&random)), .put("other", Self.key(50), [])])
    }
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: Self.options(),
      environment: DirectoryImage.environment(fileSystem, seed: 2))
    let other = try engine.family(named: "other")
    for index in 0..<10 {
      var changes: [Change] = [.put("default", Self.key(60 + index), Self.value(&random))]
      if index % 2 == 0 { changes.append(.put("other", Self.key(60 + index), Self.value(&random))) }
      if index == 7 { changes.append(.delete("default", Self.key(50))) }
      let isSynced = ending != .killedUnsynced && (index == 2 || index == 5)
      try Self.commit(changes, engine, other, isSynced ? .power : .process, &model, &history)
    }
    self.history = history
    let levels = engine.statistics.levels
    #expect(levels.filter { $0.fileCount > 0 }.count >= 2, "tables on two levels")
    if ending != .closed {
      image = try DirectoryImage(fileSystem)
      try engine.close()
    } else {
      try engine.close()
      image = try DirectoryImage(fileSystem)
    }
  }

  private static func withEngine(_ fileSystem: any FileSystem, _ seed: UInt64, _ body: (Engine) throws -> Void) throws {
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: options(), environment: DirectoryImage.environment(fileSystem, seed: seed))
    try body(engine)
    try engine.close()
  }

  private static func value(_ random: inout SeededRandom) -> [UInt8] {
    (0..<8 + random.below(24)).map { _ in UInt8(random.below(256)) }
  }

  private static func commit(
    _ changes: [Change], _ engine: Engine, _ other: ColumnFamily, _ durability: Durability,
    _ model: inout ModelDatabase, _ history: inout [(sequence: UInt64, state: ModelDatabase.State)]
  ) throws {
    var batch = WriteBatch()
    for change in changes {
      let family = change.family == "other" ? other : nil
      switch change {
      case .put(_, let key, let value): try batch.put(key, value, in: family)
      case .delete(_, let key): try batch.delete(key, in: family)
      case .singleDelete(_, let key): try batch.singleDelete(key, in: family)
      case .deleteRange(_, let lower, let upper): try batch.deleteRange(from: lower, to: upper, in: family)
      case .merge(_, let key, let operand, _): try batch.merge(key, operand, in: family)
      }
    }
    let sequence = try engine.write(batch, durability: durability)
    model.write(changes)
    history.append((sequence.value, model.state))
  }
}

/// The result of opening a database and reading all of its content in every way.
struct DamageOutcome {
  /// The error of `Engine.open`. If it is set, the content was not read.
  var openError: EngineError?
  /// The errors that reads threw.
  var readErrors: [EngineError] = []
  /// A description of a read that returned something else than what was written.
  var wrongAnswer: String?
  var faults: [VerificationReport.Fault] = []

  /// Whether no damage had any effect.
  var isSound: Bool { openError == nil && readErrors.isEmpty && wrongAnswer == nil && faults.isEmpty }

  /// Opens the database read-only, reads its content, which should be `state`, and verifies the files.
  init(reading fileSystem: any FileSystem, expecting state: ModelDatabase.State, verifies: Bool = true) throws {
    let engine: Engine
    do throws(EngineError) {
      engine = try Engine.open(
        at: DirectoryImage.directory, options: DamageFixture.options(readOnly: true),
        environment: DirectoryImage.environment(fileSystem))
    } catch {
      openError = error
      return
    }
    read(engine, state)
    if verifies { faults = try engine.verify().faults }
    try engine.close()
  }

  /// Reads the content in every way, and compares it with the expected state.
  mutating func read(_ engine: Engine, _ state: ModelDatabase.State) {
    if engine.families.count != state.families.count { wrongAnswer = "\(engine.families.count) families" }
    for (name, rows) in state.families {
      do throws(EngineError) {
        let family = try engine.family(named: name)
        readKeys(engine, family, rows)
        readForward(engine, family, rows)
        readBackward(engine, family, rows)
      } catch { wrongAnswer = "\(error)" }
    }
  }

  private mutating func readKeys(_ engine: Engine, _ family: ColumnFamily, _ rows: [ModelDatabase.Row]) {
    for row in rows {
      do throws(EngineError) {
        if try engine.get(row.key, in: family) != row.value { wrongAnswer = "get of \(row) in \(family.name)" }
      } catch { readErrors.append(error) }
    }
    for index in stride(from: 0, to: 80, by: 5) {
      let present = DamageFixture.key(index)
      for key in [present, present + [0]] where !rows.contains(where: { $0.key == key }) {
        do throws(EngineError) {
          if try engine.get(key, in: family) != nil { wrongAnswer = "get of \(key), which is not there" }
        } catch { readErrors.append(error) }
      }
    }
  }

  private mutating func readForward(_ engine: Engine, _ family: ColumnFamily, _ rows: [ModelDatabase.Row]) {
    var index = 0
    do throws(EngineError) {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      while cursor.isValid {
        let found = ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes)
        guard index < rows.count, rows[index] == found else {
          wrongAnswer = "row \(index) of \(family.name): \(found)"
          return
        }
        index += 1
        try cursor.next()
      }
      if index != rows.count { wrongAnswer = "\(index) rows in \(family.name)" }
    } catch { readErrors.append(error) }
  }

  private mutating func readBackward(_ engine: Engine, _ family: ColumnFamily, _ rows: [ModelDatabase.Row]) {
    var index = rows.count
    do throws(EngineError) {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToLast()
      while cursor.isValid {
        let found = ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes)
        guard index > 0, rows[index - 1] == found else {
          wrongAnswer = "row \(index) of \(family.name), backwards: \(found)"
          return
        }
        index -= 1
        try cursor.previous()
      }
      if index != 0 { wrongAnswer = "\(index) rows missing backwards in \(family.name)" }
    } catch { readErrors.append(error) }
  }
}
