import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// An extension that keeps only the number of each row of its collections, and finds the rows by it.
private struct Numbers: DatabaseExtension {
  static let kind = "test.numbers"
  var asks = true
  var refuses = false
  var collections: Set<String> = ["notes"]
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(collections)
    configuration.events = [.inserts, .removals]
    configuration.parts = [PartDefinition("numbers")]
    configuration.asksRowsByID = asks
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> NumbersTransaction {
    try NumbersTransaction(self, context)
  }
}

private final class NumbersTransaction: ExtensionTransaction {
  typealias Definition = Numbers
  private let definition: Numbers
  private let context: ExtensionContext<Numbers>
  private let numbers: Part
  init(_ definition: Numbers, _ context: ExtensionContext<Numbers>) throws {
    self.definition = definition
    self.context = context
    numbers = try context.part("numbers")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let isRemoved = change.event == .removed
    let (key, id) = (change.key, change.id)
    if !isRemoved, definition.refuses { throw Refusal() }
    // The map received the change before this extension.
    if definition.asks { #expect(try context.key(of: id) == (isRemoved ? nil : key)) }
    if isRemoved {
      try numbers.delete(BigEndian.bytes(id.number))
    } else {
      try numbers.put(BigEndian.bytes(id.number), [])
    }
  }
  func removesAll(in collection: String?) throws -> Bool {
    guard collection == nil else { return false }
    try numbers.deleteRange(StorageRange())
    return true
  }

  func key(of id: RowID) throws -> RowKey? { try context.key(of: id) }
  func row(of id: RowID) throws -> Row? { try context.row(of: id) }

  /// Returns the rows in the order of their insertion.
  func rows() throws -> [RowKey] {
    var rows: [RowKey] = []
    var cursor = try numbers.cursor()
    while let (key, _) = try cursor.next() {
      let id = RowID(try #require(BigEndian.number(key, as: UInt64.self)))
      rows.append(try #require(try context.key(of: id), "number \(id) leads to no row"))
    }
    return rows
  }
}

private struct Refusal: Error {}

/// Tests of the map from row numbers to rows, which is maintained while an extension uses it.
struct RowIDMapTests {
  private static func familyCount(_ database: Database) throws -> Int {
    try database.core.backend.families().count { $0.name.hasSuffix(".rows") }
  }

  /// Returns the entries of the map, by collection and key.
  private static func entries(_ database: Database) throws -> [UInt64: [UInt8]] {
    let family = try #require(try database.core.backend.families().first { $0.name.hasSuffix(".rows") })
    let page = try database.core.backend.snapshot().page(
      StorageRange(), in: family, isReverse: false, keysOnly: false, byteLimit: .max, rowLimit: .max)
    var entries: [UInt64: [UInt8]] = [:]
    for index in 0..<page.count {
      entries[try #require(BigEndian.number(page.key(index), as: UInt64.self))] = page.value(index)
    }
    return entries
  }

  /// Returns the expected entries: those of the collections of the extensions that use the map.
  private static func expected(_ database: Database, _ names: [String]) throws -> [UInt64: [UInt8]] {
    try database.read { tx in
      var entries: [UInt64: [UInt8]] = [:]
      for name in names {
        guard let info = tx.database.catalog.collection(name) else { continue }
        var rows = try tx.rows(in: name)
        while let row = try rows.next() {
          entries[row.id.number] = BigEndian.bytes(info.record.id) + row.key.bytes
        }
      }
      return entries
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `no map is kept until an extension uses it, and none after the last is unregistered`(location: StoreLocation)
    throws
  {
    let open = try location.open()
    let database = open.database
    try open.writing { tx in for number in 0..<10 { try tx.set("note", key: number, in: "notes") } }
    try database.registerReady(Numbers(asks: false), as: "silent")
    #expect(try Self.familyCount(database) == 0)
    let first = try database.registerReady(Numbers(), as: "first")
    let second = try database.registerReady(Numbers(), as: "second")
    #expect(try Self.familyCount(database) == 1)
    #expect(try Self.entries(database).count == 10)
    #expect(try open.reading { tx in try tx[first].rows() } == open.reading { tx in try tx[second].rows() })
    #expect(database.registeredExtensions == ["silent", "first", "second"])
    #expect(database.knownExtensions == ["first", "second", "silent"])
    try database.unregister("first")
    #expect(try Self.entries(database).count == 10)
    #expect(try database.unregister("second") == ["second"])
    #expect(try Self.familyCount(database) == 0)
  }

  @Test(arguments: StoreLocation.allCases)
  func `after any change each number leads to its row, and that of a removed row to none`(location: StoreLocation)
    throws
  {
    // No extension uses the map for "others".
    let names = ["notes", "others", "deep"]
    let open = try location.open()
    let database = open.database
    let handle = try database.registerReady(Numbers(collections: ["notes", "deep"]), as: "numbers")
    var random = SeededRandom(seed: 5)
    var gone: Set<RowID> = []
    for _ in 0..<60 {
      let undoes = random.oneIn(5)
      var lost: Set<RowID> = []
      struct Undo: Error {}
      do {
        try open.writing { tx in
          for _ in 0..<random.below(12) { try Self.change(tx, names, &random, &lost) }
          do {
            try open.writing { tx in
              var undone: Set<RowID> = []
              for _ in 0..<random.below(6) { try Self.change(tx, names, &random, &undone) }
              if random.oneIn(2) { throw Undo() }
              lost.formUnion(undone)
            }
          } catch is Undo {}
          if undoes { throw Undo() }
        }
        gone.formUnion(lost)
      } catch is Undo {}
      #expect(try Self.entries(database) == Self.expected(database, ["notes", "deep"]))
      try open.reading { tx throws in
        for id in gone { #expect(try tx[handle].key(of: id) == nil && tx[handle].row(of: id) == nil) }
        if let first = try tx[handle].rows().first {
          let row = try #require(try tx.row(first))
          #expect(try tx[handle].row(of: row.id)?.key == first && tx.contains(first))
        }
      }
    }
    #expect(gone.count > 50)
  }

  /// Makes one change; `lost` receives the numbers of the rows that it removes.
  private static func change(
    _ tx: WriteTransaction, _ names: [String], _ random: inout SeededRandom, _ lost: inout Set<RowID>
  ) throws {
    let name = names[random.below(names.count)]
    let key = random.below(20)
    switch random.below(20) {
    case 0:
      for name in names { lost.formUnion(try ids(tx, name)) }
      try tx.removeAll()
    case 1:
      lost.formUnion(try ids(tx, name))
      try tx.removeAll(in: name)
    case 2...6:
      if let row = try tx.row(key: key, in: name) { lost.insert(row.id) }
      try tx.remove(key: key, in: name)
    case 7, 8: try tx.replaceObject("replaced", key: key, in: name)
    default: try tx.set("note", key: key, in: name)
    }
  }

  private static func ids(_ tx: WriteTransaction, _ name: String) throws -> [RowID] {
    var ids: [RowID] = []
    var rows = try tx.rows(in: name)
    while let row = try rows.next() { ids.append(row.id) }
    return ids
  }

  @Test(arguments: StoreLocation.allCases)
  func `the map covers collections of extensions that use it, and removing all of another is one step`(
    location: StoreLocation
  ) throws {
    let open = try location.open()
    let database = open.database
    let names = ["notes", "deep", "others"]
    try open.writing { tx in
      for name in names { for number in 0..<500 { try tx.set("note", key: number, in: name) } }
    }
    let notes = try database.registerReady(Numbers(), as: "notes")
    let both = try database.registerReady(Numbers(collections: ["notes", "deep"]), as: "both")
    let same = try database.registerReady(Numbers(collections: ["deep", "notes"]), as: "same")
    #expect(try Self.familyCount(database) == 2)
    try open.writing { tx throws in
      // One entry for each row would take at least 10,000 bytes.
      let before = tx.pending.byteCount
      try tx.removeAll(in: "others")
      #expect(tx.pending.byteCount - before < 1_000)
      #expect(try tx[notes].rows().count == 500 && tx[both].rows().count == 1_000)
    }
    let deep = try #require(try open.reading { tx in try tx.row(key: 1, in: "deep")?.id })
    try open.reading { tx throws in
      #expect(try tx[both].key(of: deep) == tx[same].key(of: deep))
      #expect(try tx[both].key(of: deep)?.collection == "deep")
      #expect(try tx[notes].key(of: deep) == nil, "it is outside of the scope")
    }
    try database.unregister("both")
    #expect(try Self.familyCount(database) == 2)
    try database.unregister("same")
    #expect(try Self.familyCount(database) == 1)
    #expect(try Self.entries(database) == Self.expected(database, ["notes"]))
  }

  @Test func `the map outlives the open database, and is rebuilt if it missed a change`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    func with(_ body: (Database) throws -> Void) throws {
      let database = try Database.open(at: path)
      try body(database)
      try database.close()
    }
    try with { database in
      try database.write { tx in for number in 0..<2_500 { try tx.set("note", key: number, in: "notes") } }
      try database.registerReady(Numbers(), as: "numbers")
    }
    // The extension has missed no change.
    try with { database in
      let handle = try database.registerReady(Numbers(), as: "numbers")
      #expect(try database.read { tx in try tx[handle].rows() }.count == 2_500)
    }
    try with { database in
      try database.write { tx in
        try tx.remove(key: 7, in: "notes")
        try tx.set("note", key: 9_000, in: "notes")
      }
    }
    try with { database in
      let handle = try database.registerReady(Numbers(), as: "numbers")
      #expect(try Self.entries(database) == Self.expected(database, ["notes"]))
      let last = try database.read { tx in try tx[handle].rows() }.last
      #expect(try last?.key(as: Int.self) == 9_000)
    }
    // A read-only program reads the map.
    var options = DatabaseOptions()
    options.isReadOnly = true
    let database = try Database.open(at: path, options: options)
    let handle = try database.registerReady(Numbers(), as: "numbers")
    #expect(try database.read { tx in try tx[handle].rows() }.count == 2_500)
    try database.close()
  }

  @Test func `the map is dropped with the last extension that uses it, even if its build failed`() throws {
    let database = try Database.inMemory()
    try database.write { tx in try tx.set("note", key: 1, in: "notes") }
    #expect(throws: Refusal.self) { try database.registerReady(Numbers(refuses: true), as: "numbers") }
    try database.unregister("numbers")
    #expect(try Self.familyCount(database) == 0)
    try database.registerReady(Numbers(asks: false), as: "numbers")
    #expect(errorCode { try database.registerReady(Numbers(), as: "numbers") } == .alreadyDefined)
    #expect(try Self.familyCount(database) == 0)
  }

  @Test func `an undeclared use of the map is an error, and the database's own names are refused`() throws {
    let database = try Database.inMemory()
    let handle = try database.registerReady(Numbers(asks: false), as: "numbers")
    #expect(
      errorCode { _ = try database.read { tx in try tx[handle].key(of: RowID(1)) } } == .invalidArgument)
    #expect(errorCode { try database.registerReady(Hooks(), as: "varve.mine") } == .invalidArgument)
    try database.registerReady(Numbers(), as: "asking")
    try database.write { tx in try tx.set("note", key: 1, in: "notes") }
    #expect(errorCode { try database.unregister(RowIDMap.name(for: .only(["notes"]))) } == .unknownExtension)
    #expect(errorCode { _ = try database.write { _ in try database.unregister("asking") } } == .invalidArgument)
    #expect(try Self.familyCount(database) == 1)
  }

  @Test func `extensions that use the map are registered and unregistered during writes`() throws {
    let database = try Database.inMemory()
    try database.write { tx in for number in 0..<300 { try tx.set("note", key: number, in: "notes") } }
    Threads.run(4) { thread in
      for round in 0..<6 {
        let name = "numbers \(thread)"
        let handle = try database.registerReady(Numbers(), as: name)
        try database.write { tx in
          try tx.set("note", key: 1_000 + thread * 100 + round, in: "notes")
          #expect(try tx[handle].rows().count == tx.count(in: "notes"))
        }
        if round < 5 || thread > 0 { try database.unregister(name) }
      }
    }
    #expect(database.registeredExtensions == ["numbers 0"])
    #expect(try Self.entries(database) == Self.expected(database, ["notes"]))
  }
}
