internal import Varve
internal import VarveEngine

/// The random operations of `checkExtension`, and the comparisons between them.
struct ExtensionCheck {
  /// Sets a row of a collection.
  typealias Setter = (Database, WriteTransaction, String, inout SampleValues) throws -> Void

  private let definition: DatabaseDefinition
  private let collections: [String]
  private let fileSystem = MemoryFileSystem()
  private let seed: UInt64
  private let set: Setter
  private let name: String
  private var database: Database
  private var values: SampleValues
  private var step = 0
  /// Whether the extension keeps what a fresh build of it keeps.
  var isCompared = false
  var operation: ((WriteTransaction, inout SampleValues) throws -> Void)?
  var inspect: ((ReadTransaction) throws -> [String])?

  /// The greatest key of a row: few enough for most operations to meet rows that exist.
  static var keyMaximum: Int { 23 }

  private struct Undone: Error {}

  /// Opens the database. Without a name, the extension is that of the indexes of the only collection.
  init(
    _ definition: DatabaseDefinition, name: String?, collections: [String], seed: UInt64,
    set: @escaping Setter
  ) throws {
    guard let first = collections.first else {
      throw DatabaseError(.invalidArgument, "an extension is checked without collections")
    }
    self.definition = definition
    self.collections = collections
    self.seed = seed
    self.set = set
    values = SampleValues(seed: seed)
    database = try Self.open(definition, fileSystem)
    guard let name = name ?? database.extensionName(ofIndexesOf: first) else {
      throw DatabaseError(.invalidArgument, "the format of collection \"\(first)\" has no indexes")
    }
    self.name = name
    try database.waitUntilReady(named: name)
  }

  private static func open(_ definition: DatabaseDefinition, _ fileSystem: MemoryFileSystem) throws -> Database {
    var environment = EngineEnvironment.system
    environment.fileSystem = fileSystem
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    let engine = try Engine.open(at: "/checked", options: options, environment: environment)
    return try Database.open(EngineBackend(engine), path: "checked", definition: definition)
  }

  private mutating func reopen() throws {
    try database.close()
    database = try Self.open(definition, fileSystem)
    try database.waitUntilReady(named: name)
  }

  private func failure(_ text: String) -> ExtensionCheckFailure {
    ExtensionCheckFailure(seed: seed, step: step, text: text)
  }

  // MARK: - The steps

  mutating func run(_ steps: Int) throws {
    do {
      while step < steps {
        switch values.int(in: 0...24) {
        case 0: try checkReopening()
        case 1: try checkFreshBuild()
        default: try transaction()
        }
        step += 1
      }
      try checkReopening()
      try checkFreshBuild()
      try database.close()
    } catch {
      try? database.close()
      throw error
    }
  }

  private mutating func transaction() throws {
    let fails = values.int(in: 0...7) == 0
    let before = fails ? try committed() : []
    let database = database
    do {
      try database.write { tx in
        for _ in 0..<values.int(in: 1...4) { try changeTwice(tx) }
        if fails { throw Undone() }
      }
    } catch is Undone {
      try compare(before, committed(), "a transaction that was rolled back has changed")
    }
    if let inspect, let first = try database.read({ tx in try inspect(tx) }).first { throw failure(first) }
  }

  /// Does an operation; one of three is done and undone before.
  private mutating func changeTwice(_ tx: WriteTransaction) throws {
    if values.int(in: 0...2) == 0 {
      let before = try tx.entries(ofExtension: name)
      let begin = values
      do {
        try tx.savepoint {
          try change(tx)
          throw Undone()
        }
      } catch is Undone {}
      try compare(before, tx.entries(ofExtension: name), "an undone savepoint has changed")
      values = begin
    }
    if values.int(in: 0...3) == 0 { return try tx.savepoint { try change(tx) } }
    try change(tx)
  }

  private mutating func change(_ tx: WriteTransaction) throws {
    let collection = collections[values.int(in: 0...collections.count - 1)]
    switch values.int(in: 0...29) {
    case 0..<14: try set(database, tx, collection, &values)
    case 14..<19: if let row = try someRow(collection, tx) { try tx.remove(row) }
    case 19..<22: if let row = try someRow(collection, tx) { try tx.touchRow(row) }
    case 22..<24:
      if let row = try someRow(collection, tx) { try tx.remove(row) }
      try set(database, tx, collection, &values)
    case 24: if values.int(in: 0...3) == 0 { try tx.removeAll(in: collection) }
    case 25: if values.int(in: 0...7) == 0 { try tx.removeAll() }
    default:
      guard let operation else { return try set(database, tx, collection, &values) }
      try operation(tx, &values)
    }
  }

  private mutating func someRow(_ collection: String, _ tx: WriteTransaction) throws -> RowKey? {
    var keys: [RowKey] = []
    var rows = try tx.rows(in: collection, after: nil)
    while let row = try rows.next() { keys.append(row.key) }
    return keys.isEmpty ? nil : keys[values.int(in: 0...keys.count - 1)]
  }

  // MARK: - The comparisons

  private func committed() throws -> [ExtensionEntries] {
    try database.read { tx in try tx.entries(ofExtension: name) }
  }

  private mutating func checkReopening() throws {
    let before = try committed()
    try reopen()
    try compare(before, committed(), "a reopening of the database has changed")
  }

  private mutating func checkFreshBuild() throws {
    guard isCompared else { return }
    let before = try committed()
    try database.dropExtension(named: name)
    try reopen()
    try compare(before, committed(), "a fresh build has changed")
  }

  private func compare(_ before: [ExtensionEntries], _ after: [ExtensionEntries], _ what: String) throws {
    for (old, new) in zip(before, after) where old != new {
      let index = zip(old.entries, new.entries).enumerated().first { $1.0 != $1.1 }?.offset
      let first = index ?? min(old.entries.count, new.entries.count)
      func text(_ entries: [ExtensionEntries.Entry]) -> String {
        guard first < entries.count else { return "nothing" }
        func hex(_ bytes: [UInt8]) -> String {
          bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        return "\(hex(entries[first].key)): \(hex(entries[first].value))"
      }
      throw failure(
        "\(what) part \"\(old.part)\" from \(old.entries.count) entries to \(new.entries.count); entry \(first) was "
          + "\(text(old.entries)), and is \(text(new.entries))")
    }
    guard before.count == after.count else { throw failure("\(what) the number of parts") }
  }
}
