import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of definitions that are replaced at run time when there are few rows: within the replacing transaction.
struct ReplacementTests {
  @Test func `a reader of an earlier commit finds the old definition at every moment of a replacement`() throws {
    let database = try Database.inMemory()
    _ = try database.registerReady(WordCount(), as: "words")
    _ = try database.registerReady(WordCount(), as: "others")
    let list = database.core.extensions.list
    let (old, new) = (try #require(list["words"]), try #require(list["others"]))
    var looks = 0
    for _ in 0..<4_000 {
      let registry = ExtensionRegistry()
      registry.change { $0.inForce = [old] }
      let (isReplaced, isReading) = (Flag(), Flag())
      let wrong = Flag()
      let reader = Thread {
        while !isReplaced.isSet {
          if registry.find("words", at: CommitVersion(1)) !== old { wrong.set() }
          isReading.set()
        }
        isReplaced.end.signal()
      }
      reader.start()
      while !isReading.isSet { sched_yield() }
      registry.replace(old, by: new, at: CommitVersion(5))
      isReplaced.set()
      isReplaced.end.wait()
      looks += 1
      try #require(!wrong.isSet, "replacement \(looks)")
      #expect(registry.find("words", at: CommitVersion(1)) === old)
    }
  }

  private final class Flag: Sendable {
    private let flag = Atomic<Bool>(false)
    let end = DispatchSemaphore(value: 0)
    var isSet: Bool { flag.load(ordering: .sequentiallyConsistent) }
    func set() { flag.store(true, ordering: .sequentiallyConsistent) }
  }

  private struct Undone: Error {}
  private let mirrored = Mirrored()

  private func open(_ site: StorageSite) throws -> Database { try Database.open(try site.open(), path: "replaced") }

  @Test(arguments: StorageKind.allCases)
  func `a transaction uses the new definition from the call on, others from the commit, even after a restart`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    var database = try open(site)
    try mirrored.fill(database, 0..<20)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    try database.change { tx in
      try tx.set(100, key: 5, in: "c")
      let old = try tx[handle]
      try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
      #expect(try mirrored.isRight(tx, handle, "2"))
      try tx.set(101, key: 6, in: "c")
      try tx.remove(key: 7, in: "c")
      try tx.set(102, key: 1_000, in: "c")
      #expect(try mirrored.isRight(tx, handle, "2"))
      #expect(errorCode { try old.part("rows").put([1], [1]) } == .invalidArgument)
      try otherThread { [mirrored, database] in
        let isOld = try mirrored.isRight(database, handle, "1")
        #expect(isOld)
      }
    }
    #expect(try mirrored.isRight(database, handle, "2"))
    try mirrored.fill(database, 10..<30)
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database) == ["x.1~1.rows"])
    try database.close()
    _ = mirrored.lines.take()
    database = try open(site)
    try database.registerReady(mirrored.definition("2"), as: "mirror")
    #expect(mirrored.lines.take() == [], "nothing is built")
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `an undone savepoint restores the old definition, and so does a transaction that throws`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    var database = try open(site)
    try mirrored.fill(database, 0..<20)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    try database.change { tx in
      try tx.set(100, key: 1, in: "c")
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
        try tx.set(101, key: 2, in: "c")
        throw Undone()
      }
      try tx.set(102, key: 3, in: "c")
      #expect(try mirrored.isRight(tx, handle, "1"))
      // Of two replacements, one is kept.
      try tx.replaceDefinition(of: handle, by: mirrored.definition("3"))
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: mirrored.definition("4"))
        throw Undone()
      }
      try tx.set(103, key: 4, in: "c")
      #expect(try mirrored.isRight(tx, handle, "3"))
    }
    #expect(try mirrored.isRight(database, handle, "3"))
    #expect(throws: Undone.self) {
      try database.change { tx in
        try tx.replaceDefinition(of: handle, by: mirrored.definition("5"))
        throw Undone()
      }
    }
    try mirrored.fill(database, 15..<25)
    #expect(try mirrored.isRight(database, handle, "3"))
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database).count == 1)
    try database.close()
    database = try open(site)
    try database.registerReady(mirrored.definition("3"), as: "mirror")
    #expect(try mirrored.isRight(database, handle, "3"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a commit that the storage refuses leaves the old definition in force`() throws {
    let shared = try SharedBackend()
    let database = try shared.open()
    try mirrored.fill(database, 0..<20)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    shared.refuseNext(DatabaseError(.storage, "the disk is full"))
    #expect(
      errorCode {
        try database.change { tx in
          try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
          try tx.set(100, key: 1, in: "c")
        }
      } == .storage)
    #expect(try mirrored.isRight(database, handle, "1"))
    try mirrored.fill(database, 15..<25)
    #expect(try mirrored.isRight(database, handle, "1"))
    try database.change { tx in try tx.replaceDefinition(of: handle, by: mirrored.definition("2")) }
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `a reader of an earlier commit keeps the old definition and its families, until it ends`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let database = try open(site)
    try mirrored.fill(database, 0..<20)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    let connection = database.connection()
    try connection.beginLongLivedRead()
    func oldIsRight() throws -> Bool { try connection.read { tx in try mirrored.isRight(tx, handle, "1") } }
    for version in ["2", "3"] {
      try database.change { tx in try tx.replaceDefinition(of: handle, by: mirrored.definition(version)) }
      try mirrored.fill(database, 10..<30)
      try database.core.sweepExtensions()
      #expect(try oldIsRight())
      #expect(try mirrored.isRight(database, handle, version))
    }
    connection.endLongLivedRead()
    try database.core.sweepExtensions()
    #expect(try connection.read { tx in try mirrored.isRight(tx, handle, "3") })
    #expect(try mirrored.families(database) == ["x.1~2.rows"])
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `10,000 rows are built in the transaction, one more row outside of it`() throws {
    let database = try Database.inMemory()
    try mirrored.fill(database, 0..<10_000)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    try database.change { tx in
      try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
      #expect(database.core.extensions.list.shadow("mirror") == nil)
      #expect(try tx[handle].part("rows").count() == 10_000)
      try tx.set(0, key: 10_000, in: "c")
      try tx.replaceDefinition(of: handle, by: mirrored.definition("3"))
      #expect(try mirrored.isRight(tx, handle, "2"))
    }
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, "3"))
    try database.close()
  }

  @Test func `an extension without parts, and one that builds nothing, are replaced at once`() throws {
    let lines = Lines()
    func noting(_ version: String) -> Scripted {
      var noting = Scripted()
      noting.configuration.version = version
      noting.did = { _, change in lines.add("\(version) \(change.key.text)") }
      return noting
    }
    let database = try Database.inMemory()
    database.core.extensions.rowsInTransaction.store(2, ordering: .relaxed)
    try mirrored.fill(database, 0..<5)
    let handle = try database.registerReady(noting("1"), as: "noting")
    try database.change { tx in
      try tx.set(1, key: 1, in: "c")
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: noting("2"))
        try tx.set(2, key: 2, in: "c")
        throw Undone()
      }
      try tx.set(3, key: 3, in: "c")
      try tx.replaceDefinition(of: handle, by: noting("3"))
      try tx.set(4, key: 4, in: "c")
    }
    try database.change { tx in try tx.set(5, key: 5, in: "c") }
    #expect(lines.take() == ["1 1", "2 2", "1 3", "3 4", "3 5"])
    #expect(database.knownExtensions == [])
    try database.close()
  }

  @Test func `a replacement with the same version keeps the existing contents`() throws {
    let database = try Database.inMemory()
    try mirrored.fill(database, 0..<20)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    let families = try mirrored.families(database)
    let lines = Lines()
    var other = mirrored.definition("1")
    let did = other.did
    other.did = { tx, change in
      lines.add(change.key.text)
      try did(tx, change)
    }
    try database.change { tx in
      try tx.set(100, key: 1, in: "c")
      try tx.replaceDefinition(of: handle, by: other)
      try tx.set(101, key: 2, in: "c")
    }
    #expect(lines.take() == ["2"])
    #expect(try mirrored.isRight(database, handle, "1"))
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database) == families)
    try database.close()
  }

  @Test func `observers are notified to read the parts again`() throws {
    let database = try Database.inMemory()
    try mirrored.fill(database, 0..<3)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    let connection = database.connection()
    try connection.beginLongLivedRead()
    try database.change { tx in try tx.replaceDefinition(of: handle, by: mirrored.definition("2")) }
    let events = try connection.beginLongLivedRead()
    #expect(events.count == 1)
    for case .changes(let changes) in events {
      if case .reload = changes.changes(of: handle) { continue }
      Issue.record("not .reload")
    }
    try database.close()
  }

  // MARK: - Refusals

  @Test func `a replacement in a hook, or by an invalid definition, is refused and changes nothing`() throws {
    let database = try Database.inMemory()
    try mirrored.fill(database, 0..<3)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    try database.registerReady(mirrored.definition("1", dependencies: ["mirror"]), as: "second")
    let codes = Lines()
    var hooks = Hooks()
    let next = mirrored.definition("2")
    hooks.didModify = { tx, _ in
      codes.add(errorCode { try tx.replaceDefinition(of: handle, by: next) } == .invalidArgument ? "refused" : "done")
    }
    try database.registerReady(hooks, as: "hooks")
    try database.change { tx in try tx.set(1, key: 1, in: "c") }
    #expect(codes.take() == ["refused"])
    try database.change { tx in
      try tx.set(2, key: 2, in: "c")
      let circle = mirrored.definition("2", dependencies: ["second"])
      #expect(errorCode { try tx.replaceDefinition(of: handle, by: circle) } == .invalidDefinition)
      let missing = mirrored.definition("2", dependencies: ["none"])
      #expect(errorCode { try tx.replaceDefinition(of: handle, by: missing) } == .unknownExtension)
      let other = WordCount().named("mirror")
      #expect(errorCode { try tx.replaceDefinition(of: other, by: WordCount()) } == .definitionDiffers)
      let none = mirrored.definition("2").named("none")
      #expect(errorCode { try tx.replaceDefinition(of: none, by: mirrored.definition("2")) } == .unknownExtension)
      var parts = mirrored.definition("2")
      parts.configuration.parts = [PartDefinition("a"), PartDefinition("a")]
      #expect(errorCode { try tx.replaceDefinition(of: handle, by: parts) } == .invalidDefinition)
      #expect(try mirrored.isRight(tx, handle, "1"))
    }
    try database.close()
  }

  @Test func `an error thrown by didFinishBuild leaves everything unchanged`() throws {
    let database = try Database.inMemory()
    try mirrored.fill(database, 0..<3)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    var unique = mirrored.definition("2")
    unique.finish = { _ in throw Undone() }
    try database.change { tx in
      #expect(throws: Undone.self) { try tx.replaceDefinition(of: handle, by: unique) }
      try tx.set(100, key: 1, in: "c")
      #expect(try mirrored.isRight(tx, handle, "1"))
    }
    #expect(try mirrored.isRight(database, handle, "1"))
    try database.close()
  }

  // MARK: - Dependents

  /// Returns an extension that records how often it received a row, and whether it has handled a replaced dependency.
  private func dependent(on name: String, keeps: Bool, _ lines: Lines) -> Scripted {
    var dependent = Scripted(events: [.inserts])
    dependent.configuration.parts = [PartDefinition("rows")]
    dependent.configuration.dependencies = [name]
    dependent.configuration.build = .background
    dependent.did = { tx, change in
      lines.add("row \(change.key.text)")
      try tx.part("rows").put(change.key.bytes, [1])
    }
    dependent.dependencyDidChange = { _, name, change in
      lines.add("\(name) \(type(of: change))")
      if keeps { (change as? ReplacedDependency)?.keep() }
    }
    return dependent
  }

  @Test(arguments: StorageKind.allCases)
  func `a dependent that handles the new definition stays, another is rebuilt`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try open(site)
    try mirrored.fill(database, 0..<2)
    let (kept, built, last) = (Lines(), Lines(), Lines())
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    func register(_ version: String) throws -> [ExtensionHandle<Scripted>] {
      try database.registerReady(mirrored.definition(version), as: "mirror")
      return [
        try database.registerReady(dependent(on: "mirror", keeps: true, kept), as: "kept"),
        try database.registerReady(dependent(on: "mirror", keeps: false, built), as: "built"),
        try database.registerReady(dependent(on: "built", keeps: true, last), as: "last"),
      ]
    }
    try database.unregister("mirror")
    let dependents = try register("1")
    #expect([kept, built, last].map { $0.take() } == Array(repeating: ["row 0", "row 1"], count: 3))
    try database.change { tx in
      try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
      #expect(errorCode { _ = try tx[dependents[1]] } == .notReady)
      #expect(errorCode { _ = try tx[dependents[2]] } == .notReady)
      _ = try tx[dependents[0]]
    }
    for dependent in dependents { try database.waitReady(dependent) }
    #expect(kept.take() == ["mirror ReplacedDependency"])
    #expect(built.take() == ["mirror ReplacedDependency", "row 0", "row 1"])
    #expect(last.take() == ["row 0", "row 1"])
    try database.close()
    database = try open(site)
    _ = try register("2")
    #expect([kept, built, last].map { $0.take() } == [[], [], []], "nothing is built after a restart")
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `after an undone replacement, a dependent that would have been rebuilt gets each change`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let database = try open(site)
    try mirrored.fill(database, 0..<2)
    let lines = Lines()
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    let built = try database.registerReady(dependent(on: "mirror", keeps: false, lines), as: "built")
    _ = lines.take()
    try database.change { tx in
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
        try tx.set(7, key: 7, in: "c")
        throw Undone()
      }
      try tx.set(8, key: 8, in: "c")
      #expect(try tx[built].part("rows").count() == 3)
    }
    #expect(lines.take() == ["mirror ReplacedDependency", "row 8"])
    try database.look { tx in try #expect(tx[built].part("rows").count() == 3) }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a reader of an earlier commit keeps a dependent that has handled the new definition`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let database = try open(site)
    try mirrored.fill(database, 0..<2)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    let kept = try database.registerReady(dependent(on: "mirror", keeps: true, Lines()), as: "kept")
    let connection = database.connection()
    try connection.beginLongLivedRead()
    try database.change { tx in
      try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
      try tx.set(8, key: 8, in: "c")
    }
    #expect(try connection.read { tx in try tx[kept].part("rows").count() } == 2)
    #expect(try database.look { tx in try tx[kept].part("rows").count() } == 3)
    connection.endLongLivedRead()
    try database.close()
    withExtendedLifetime(site) {}
  }
}
