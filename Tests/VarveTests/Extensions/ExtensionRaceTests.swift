import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// An extension that keeps the keys of the rows that it received.
private struct Keys: DatabaseExtension {
  static let kind = "test.keys"
  var version = "1"
  var isConcurrent = true
  var isPopulated = true
  var dependencies: [String] = []
  /// The changes that were received, in transactions whether or not they were committed.
  var announced = Called()
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.events = [.inserts, .removals]
    configuration.parts = [PartDefinition("keys")]
    configuration.dependencies = dependencies
    configuration.isConcurrent = isConcurrent
    if !isPopulated { configuration.build = .none }
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> KeysTransaction {
    try KeysTransaction(self, context)
  }
}

private final class KeysTransaction: ExtensionTransaction {
  typealias Definition = Keys
  private let definition: Keys
  private let keys: Part
  init(_ definition: Keys, _ context: ExtensionContext<Keys>) throws {
    self.definition = definition
    keys = try context.part("keys")
  }

  func didChange(_ change: borrowing RowChange) throws {
    if change.event == .removed {
      definition.announced.add("-" + change.key.text)
      try keys.delete(change.key.bytes)
    } else {
      definition.announced.add(change.key.text)
      try keys.put(change.key.bytes, [])
    }
  }
  func removesAll(in collection: String?) throws -> Bool {
    guard collection == nil else { return false }
    try keys.deleteRange(StorageRange())
    return true
  }

  func all() throws -> Set<[UInt8]> {
    var all: Set<[UInt8]> = []
    var cursor = try keys.cursor()
    while let (key, _) = try cursor.next() { all.insert(key) }
    return all
  }
}

private struct TakenBack: Error {}

/// Tests of extensions that are registered and unregistered during writes, and of hooks that break the rules.
struct ExtensionRaceTests {
  private let database: Database
  init() throws { database = try Database.inMemory() }

  private func fill(_ range: Range<Int>) throws {
    try database.core.write(WriteTerms()) { tx in for number in range { try tx.set("note", key: number, in: "notes") } }
  }

  private func rows() throws -> Set<[UInt8]> {
    try database.core.read { tx in
      var keys: Set<[UInt8]> = []
      var rows = try tx.rows(in: "notes")
      while let row = try rows.next() { keys.insert(row.key.bytes) }
      return keys
    }
  }

  private func kept(_ handle: ExtensionHandle<Keys>) throws -> Set<[UInt8]> {
    try database.core.read { tx in try tx[handle].all() }
  }

  // MARK: - Concurrent writers

  @Test func `a concurrent write notifies an extension that was registered while it ran`() throws {
    try fill(0..<10)
    var attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      try tx.set("sea", key: 100, in: "notes")
      if attempts == 1 { Threads.run(1) { [database] _ in _ = try database.registerReady(Keys(), as: "keys") } }
    }
    #expect(attempts == 2)
    let keys = Keys().named("keys")
    #expect(try kept(keys) == rows())
    // An extension that is unregistered meanwhile is not notified.
    attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      try tx.set("sea", key: 101, in: "notes")
      if attempts == 1 { Threads.run(1) { [database] _ in try database.unregister("keys") } }
    }
    #expect(attempts == 2)
    #expect(try rows().count == 12)
  }

  @Test func `a concurrent write takes the writer if an extension registered meanwhile needs it`() throws {
    var attempts = 0
    try database.core.writeConcurrently(WriteTerms()) { tx in
      attempts += 1
      try tx.set("sea", key: 100, in: "notes")
      if attempts == 1 {
        Threads.run(1) { [database] _ in _ = try database.registerReady(Keys(isConcurrent: false), as: "keys") }
      }
    }
    // The extension was missing at first, then needed, and then received the change.
    #expect(attempts == 3 && database.statistics.writesThatTookTheWriter == 1)
    #expect(try rows().count == 1)
  }

  @Test func `extensions that are built during many concurrent writes miss no change`() throws {
    try fill(0..<3_000)
    let isDone = Mutex(false)
    let writers = Threads.start(2) { [database] thread in
      var number = 0
      while !isDone.withLock({ $0 }) {
        try database.core.writeConcurrently(WriteTerms()) { tx in
          try tx.set("late", key: 10_000 * (thread + 1) + number, in: "notes")
          // These keys lie before and after the watermark.
          try tx.remove(key: (number * 37 + thread) % 3_000, in: "notes")
        }
        number += 1
      }
    }
    for round in 0..<6 {
      let handle = try database.registerReady(Keys(), as: "keys \(round)")
      let (kept, there) = try database.core.read { tx in (try tx[handle].all(), try Set(tx.keyBytes(in: "notes"))) }
      #expect(kept == there)
    }
    isDone.withLock { $0 = true }
    writers.join()
    for round in 0..<6 { #expect(try kept(Keys().named("keys \(round)")) == rows()) }
  }

  // MARK: - Hooks

  @Test func `what a hook writes and undoes is not delivered`() throws {
    var hooks = Hooks()
    hooks.didModify = { tx, change in
      guard change.key.text == "1" else { return }
      try? tx.savepoint {
        try tx.set("undone", key: 9, in: "notes")
        throw TakenBack()
      }
      try tx.set("stays", key: 10, in: "notes")
      try? tx.savepoint {
        try tx.remove(key: 2, in: "notes")
        throw TakenBack()
      }
    }
    try database.registerReady(hooks, as: "hooks")
    let keys = Keys()
    let handle = try database.registerReady(keys, as: "keys")
    try fill(2..<3)
    try fill(1..<2)
    #expect(keys.announced.all == ["2", "1", "10"])
    #expect(try kept(handle) == rows())
    #expect(try rows().count == 3)
  }

  @Test func `a hook called before a change can't write, but may read`() throws {
    try fill(0..<5)
    let codes = Mutex<[DatabaseError.Code?]>([])
    @Sendable func attempt(_ tx: WriteTransaction) {
      func code(_ body: () throws -> Void) { let found = errorCode(body); codes.withLock { $0.append(found) } }
      code { try tx.set("x", key: 77, in: "notes") }
      code { try tx.remove(key: 3, in: "notes") }
      code { try tx.replaceObject("x", key: 3, in: "notes") }
      code { try tx.touchRow(key: 3, in: "notes") }
      code { try tx.removeAll(in: "notes") }
      code { try tx.removeAll() }
      code { try tx.remove(in: "notes", 0..<3) }
    }
    var hooks = Hooks()
    hooks.willModify = { tx, _ throws in
      attempt(tx)
      #expect(try tx.contains(key: 3, in: "notes"))
    }
    hooks.willRemove = { tx, _ in attempt(tx) }
    hooks.willRemoveAll = { tx in attempt(tx) }
    try database.registerReady(hooks, as: "hooks")
    try database.core.write(WriteTerms()) { tx throws in
      try tx.set("changed", key: 3, in: "notes")
      try tx.remove(key: 4, in: "notes")
      #expect(try tx.count(in: "notes") == 4)
      try tx.removeAll()
      #expect(try tx.count(in: "notes") == 0)
    }
    #expect(codes.withLock { $0 } == Array(repeating: .invalidArgument, count: 21))
  }

  // MARK: - Registrations that are interrupted

  @Test func `unregistering an extension while it is built ends the build, and removes the extension`() throws {
    // The next chunk writes only the record.
    try fill(0..<20)
    let building = Mutex<RegisteredExtension?>(nil)
    let code = errorCode {
      try database.registerReady(Keys(), as: "keys") { [database] _ in
        guard building.withLock({ $0 == nil }) else { return }
        building.withLock { $0 = database.core.extensions.list["keys"] }
        _ = try? database.unregister("keys")
      }
    }
    #expect(code == .unknownExtension)
    _ = try #require(building.withLock { $0 }).build.waitForEnd()
    #expect(database.knownExtensions == [] && database.registeredExtensions == [])
    #expect(try kept(try database.registerReady(Keys(), as: "keys")) == rows())
  }

  @Test func `an extension registered under the name of one that is unregistered during its build replaces it`() throws
  {
    try fill(0..<500)
    let isFirst = Mutex(true)
    let code = errorCode {
      // The handle stands for the name, so this waits for the other extension.
      try database.registerReady(Keys(), as: "keys") { [database] _ in
        let isNow = isFirst.withLock { isFirst in
          defer { isFirst = false }
          return isFirst
        }
        guard isNow else { return }
        _ = try? database.unregister("keys")
        _ = try? database.registerReady(Keys(version: "2"), as: "keys")
      }
    }
    #expect(code == nil || code == .unknownExtension, "between the two there is none")
    try database.waitReady(Keys().named("keys"))
    #expect(database.registeredExtensions == ["keys"])
    #expect(try kept(Keys().named("keys")) == rows())
    try fill(500..<510)
    #expect(try kept(Keys().named("keys")) == rows())
  }

  @Test func `changes received by an extension without a build stay, even right after its registration`() throws {
    for round in 0..<40 {
      let name = "keys \(round)"
      let keys = Keys(isPopulated: false)
      let writers = Threads.start(2) { [database] thread in
        for number in 0..<4 {
          try database.core.write(WriteTerms()) { tx in
            try tx.set("note", key: round * 100 + thread * 10 + number, in: "notes")
          }
        }
      }
      let handle = try database.registerReady(keys, as: name)
      writers.join()
      #expect(try kept(handle).count == keys.announced.all.count)
      try database.unregister(name)
    }
  }

  @Test(arguments: [StorageKind.memory, .toy])
  func `an extension that restarts without rows keeps everything received right after its registration`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    for round in 0..<20 {
      let database = try Database.open(try site.open(), path: "again")
      let keys = Keys(version: "\(round)", isPopulated: false)
      let writers = Threads.start(2) { thread in
        for number in 0..<6 {
          try database.core.write(WriteTerms()) { tx in
            try tx.set("note", key: round * 100 + thread * 10 + number, in: "notes")
          }
        }
      }
      let handle = try database.registerReady(keys, as: "keys")
      writers.join()
      try database.core.write(WriteTerms()) { tx in try tx.set("note", key: -1 - round, in: "notes") }
      #expect(try database.core.read { tx in try tx[handle].all().count } == keys.announced.all.count)
      try database.endNow()
    }
  }

  @Test(arguments: [StorageKind.memory, .toy])
  func `all rows can be removed while a part is yet to be rebuilt`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    for round in 0..<30 {
      let database = try Database.open(try site.open(), path: "removed")
      let writers = Threads.start(2) { thread in
        for number in 0..<6 {
          try database.core.write(WriteTerms()) { tx in
            if number % 2 == 1 { try tx.removeAll() }
            try tx.set("note", key: round * 100 + thread * 10 + number, in: "notes")
          }
        }
      }
      let handle = try database.registerReady(Keys(version: "\(round)"), as: "keys")
      writers.join()
      let (kept, there) = try database.core.read { tx in (try tx[handle].all(), try Set(tx.keyBytes(in: "notes"))) }
      #expect(kept == there)
      try database.endNow()
    }
  }

  @Test func `a read whose extension is unregistered throws, and a concurrent write runs again`() throws {
    try fill(0..<20)
    let handle = try database.registerReady(Keys(), as: "keys")
    try database.core.read { tx in
      let keys = try tx[handle]
      #expect(try keys.all().count == 20)
      try otherThread { [database] in try database.unregister("keys") }
      #expect(errorCode { _ = try keys.all() } == .snapshotTooOld)
    }
    try database.registerReady(Keys(), as: "keys")
    let attempts = Mutex(0)
    try database.writeConcurrently { [database] tx in
      let attempt = attempts.withLock { attempts in
        attempts += 1
        return attempts
      }
      _ = try tx.contains(key: 1, in: "notes")
      try tx.set("x", key: 100, in: "notes")
      if attempt == 1 { try otherThread { try database.unregister("keys") } }
      try tx.set("x", key: 101, in: "notes")
    }
    #expect(attempts.withLock { $0 } == 2)
    #expect(try rows().count == 22)
  }

  @Test func `a closure called by a build can't wait for the build`() throws {
    try fill(0..<20)
    let codes = Mutex<[DatabaseError.Code?]>([])
    try database.registerReady(Keys(), as: "keys") { [database] _ in
      let handle = Keys().named("keys")
      let found = [errorCode { try database.waitReady(handle) }, errorCode { try database.close() }]
      codes.withLock { $0 += found }
    }
    let found = codes.withLock { $0 }
    #expect(found.count >= 2 && found.allSatisfy { $0 == .invalidArgument })
  }

  // MARK: - Dependents

  @Test func `unregistering also removes what dependents derived from it, even if those are not registered`() throws {
    let directory = try TemporaryDirectory()
    func with(_ body: (Database) throws -> Void) throws {
      let database = try Database.open(at: directory.path + "/db")
      try body(database)
      try database.close()
    }
    try with { database in
      try database.registerReady(Keys(), as: "base")
      try database.registerReady(Keys(dependencies: ["base"]), as: "middle")
      try database.registerReady(Keys(dependencies: ["middle"]), as: "top")
      try database.registerReady(Keys(), as: "other")
    }
    try with { database throws in
      #expect(try Set(database.unregister("base")) == ["base", "middle", "top"])
      #expect(database.knownExtensions == ["other"])
    }
    // An extension that depends on a rebuilt one is rebuilt, too.
    try with { database in
      try database.write { tx in try tx.set("note", key: 1, in: "notes") }
      try database.registerReady(Keys(), as: "base")
      try database.registerReady(Keys(dependencies: ["base"]), as: "middle")
    }
    try with { database in
      try database.registerReady(Keys(version: "2"), as: "base")
      let keys = Keys(dependencies: ["base"])
      try database.registerReady(keys, as: "middle")
      #expect(keys.announced.all == ["1"])
    }
  }
}

extension ReadTransaction {
  fileprivate func keyBytes(in collection: String) throws -> [[UInt8]] {
    var keys: [[UInt8]] = []
    var rows = try rows(in: collection)
    while let row = try rows.next() { keys.append(row.key.bytes) }
    return keys
  }
}
