import Dispatch
import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of building an extension while other writers commit, and of builds that end early.
struct BuildTests {
  /// An extension that keeps the number of each row by its key, and runs a closure of the test for each row.
  private struct Mirror: DatabaseExtension {
    static let kind = "test.mirror"
    var dependencies: [String] = []
    var didInsert: @Sendable (WriteTransaction, Int) throws -> Void = { _, _ in }
    var flush: @Sendable (WriteTransaction) throws -> Void = { _ in }

    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.scope = .only(["rows"])
      configuration.parts = [PartDefinition("numbers")]
      configuration.dependencies = dependencies
      return configuration
    }

    func makeTransaction(_ context: ExtensionContext<Self>) throws -> MirrorTransaction {
      try MirrorTransaction(self, context)
    }
  }

  private final class MirrorTransaction: ExtensionTransaction {
    typealias Definition = Mirror
    private let definition: Mirror
    private let context: ExtensionContext<Mirror>
    private let numbers: Part

    init(_ definition: Mirror, _ context: ExtensionContext<Mirror>) throws {
      self.definition = definition
      self.context = context
      numbers = try context.part("numbers")
    }

    func didChange(_ change: borrowing RowChange) throws {
      guard let row = try change.row else { return try numbers.delete(change.key.bytes) }
      try numbers.put(row.key.bytes, try row.object(as: Int.self).encoded())
      guard change.event == .inserted, let writing = context.writeTransaction else { return }
      try definition.didInsert(writing, try row.key(as: Int.self))
    }
    func flush() throws {
      guard let writing = context.writeTransaction else { return }
      try definition.flush(writing)
    }

    func all() throws -> [Int: Int] {
      var all: [Int: Int] = [:]
      var entries = try numbers.cursor()
      while let (key, value) = try entries.next() { all[try Int.decoded(from: key)] = try Int.decoded(from: value) }
      return all
    }
  }

  private static func rows(_ database: Database) throws -> [Int: Int] {
    try database.look { tx in
      Dictionary(
        uniqueKeysWithValues: try tx.keys(Int.self, in: "rows").map {
          ($0, try tx.object(Int.self, key: $0, in: "rows") ?? -1)
        })
    }
  }

  private static func filled(_ count: Int, options: DatabaseOptions = DatabaseOptions()) throws -> Database {
    let database = try Database.inMemory(options: options)
    try database.change { tx in for number in 0..<count { try tx.set(number, key: number, in: "rows") } }
    return database
  }

  private static func expectRight(
    _ database: Database, _ handle: ExtensionHandle<Mirror>, location: SourceLocation = #_sourceLocation
  ) throws {
    let kept = try database.look { tx in try tx[handle].all() }
    #expect(kept == (try rows(database)), sourceLocation: location)
  }

  // MARK: - Rows that the extension changes while it is built

  @Test func `a row that a hook writes ahead of the build is not missed`() throws {
    let database = try Database.inMemory()
    try database.change { tx in for key in [5, 10, 20, 30] { try tx.set(key, key: key, in: "rows") } }
    let mirror = Mirror(didInsert: { tx, key in
      guard key == 10 else { return }
      try tx.set(2_000, key: 20, in: "rows")
      try tx.set(15, key: 15, in: "rows")
      try tx.remove(key: 30, in: "rows")
      try tx.set(1, key: 1, in: "rows")
    })
    let handle = try database.registerReady(mirror, as: "mirror")
    #expect(try Self.rows(database) == [1: 1, 5: 5, 10: 10, 15: 15, 20: 2_000])
    try Self.expectRight(database, handle)
  }

  @Test func `a row that is written by the flush of the commit that ends the build is not missed`() throws {
    let database = try Self.filled(3)
    let mirror = Mirror(flush: { tx in
      guard try !tx.contains(key: 7, in: "rows") else { return }
      try tx.set(7, key: 7, in: "rows")
    })
    let handle = try database.registerReady(mirror, as: "mirror")
    try Self.expectRight(database, handle)
  }

  // MARK: - Ends

  @Test func `a build waits for a writer that is busy for longer than the timeout`() throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(20)
    let database = try Self.filled(3_000, options: options)
    let isBlocked = Mutex(false)
    let ended = DispatchSemaphore(value: 0)
    let handle = try database.registerReady(Mirror(), as: "mirror") { progress in
      guard progress.rowsDone < 3_000,
        isBlocked.withLock({ isBlocked in
          defer { isBlocked = true }
          return !isBlocked
        })
      else { return }
      let holds = DispatchSemaphore(value: 0)
      Thread.detachNewThread {
        try? database.change { _ in
          holds.signal()
          while database.core.writer.waiterCount == 0 { sched_yield() }
          // Its timeout has the length of the build's, and starts later.
          let other = errorCode { try otherThread { try database.change { _ in } } }
          #expect(other == .writerBusy)
        }
        ended.signal()
      }
      holds.wait()
    }
    ended.wait()
    #expect(isBlocked.withLock { $0 })
    try Self.expectRight(database, handle)
  }

  @Test func `canceling a task ends its wait, and not the build`() async throws {
    let database = try Self.filled(5_000)
    let isCancelled = Mutex(false)
    let handle = try await database.register(Mirror(), as: "mirror") { _ in
      // The build continues after the wait has ended.
      while isCancelled.withLock({ !$0 }) { sched_yield() }
    }
    let task = Task { try await database.waitUntilReady(handle) }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(database.core.extensions.list["mirror"]?.build.isRunning == true)
    try database.change { tx in
      try tx.set(-1, key: 0, in: "rows")
      try tx.set(-2, key: 4_999, in: "rows")
    }
    isCancelled.withLock { $0 = true }
    try await database.waitUntilReady(handle)
    try Self.expectRight(database, handle)
    #expect(errorCode { _ = try database.registerReady(Mirror(), as: "mirror") as ExtensionHandle } == .alreadyDefined)
  }

  @Test func `an error of a hook, or of a flush, discards what was built`() throws {
    let database = try Self.filled(2_500)
    #expect(throws: Stop.self) {
      try database.registerReady(Mirror(didInsert: { _, key in if key == 2_000 { throw Stop() } }), as: "mirror")
    }
    #expect(try database.core.backend.families().allSatisfy { !$0.name.hasPrefix("x.") })
    try database.unregister("mirror")
    #expect(throws: Stop.self) {
      try database.registerReady(
        Mirror(flush: { tx in if tx.version > .zero { throw Stop() } }), as: "mirror")
    }
    try database.unregister("mirror")
    #expect(database.knownExtensions == [])
    try Self.expectRight(database, try database.registerReady(Mirror(), as: "mirror"))
  }

  // MARK: - Dependencies

  @Test func `a child that is registered while its parent is built waits for it`() throws {
    let database = try Self.filled(3_000)
    let child = Mutex<Result<ExtensionHandle<Mirror>, any Error>?>(nil)
    let isStarted = Mutex(false)
    let ended = DispatchSemaphore(value: 0)
    let box = Box(child)
    _ = try database.registerReady(Mirror(), as: "parent") { _ in
      guard
        isStarted.withLock({ isStarted in
          defer { isStarted = true }
          return !isStarted
        })
      else { return }
      Thread.detachNewThread {
        box.set(Result { try database.registerReady(Mirror(dependencies: ["parent"]), as: "child") })
        ended.signal()
      }
      while database.core.extensions.list["parent"]?.build.waiterCount == 0 { sched_yield() }
    }
    ended.wait()
    let handle = try #require(box.value).get()
    try Self.expectRight(database, handle)
  }

  private final class Box: Sendable {
    private let content: Mutex<Result<ExtensionHandle<Mirror>, any Error>?>
    init(_ content: consuming Mutex<Result<ExtensionHandle<Mirror>, any Error>?>) { self.content = content }
    func set(_ value: Result<ExtensionHandle<Mirror>, any Error>) { content.withLock { $0 = value } }
    var value: Result<ExtensionHandle<Mirror>, any Error>? { content.withLock { $0 } }
  }

  // MARK: - Hooks

  @Test func `hooks without parts commit nothing when they are registered again`() throws {
    let kept = KeptDatabase()
    var versions: [CommitVersion] = []
    for _ in 0..<3 {
      let database = try kept.open()
      try database.registerReady(Hooks(), as: "audit")
      #expect(database.registeredExtensions == ["audit"] && database.knownExtensions == [])
      versions.append(try database.lastVersion())
      try database.endNow()
    }
    #expect(versions[1] == versions[2])
  }

  @Test func `hooks that write to each other endlessly are stopped`() throws {
    let database = try Database.inMemory()
    var hooks = Hooks(scope: .only(["left"]))
    hooks.didModify = { tx, _ in try tx.set(1, key: 1, in: "right") }
    try database.registerReady(hooks, as: "left")
    hooks = Hooks(scope: .only(["right"]))
    hooks.didModify = { tx, _ in try tx.set(1, key: 1, in: "left") }
    try database.registerReady(hooks, as: "right")
    let error = #expect(throws: DatabaseError.self) {
      try database.change { tx in
        tx.hooks.queuedMaximum = 5_000
        try tx.set(1, key: 1, in: "left")
      }
    }
    #expect(error?.code == .doesNotSettle)
    #expect(try database.look { tx in try tx.count() } == 0)
  }
}
