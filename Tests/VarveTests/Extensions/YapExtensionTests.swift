import EngineTestSupport
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the behavior of extensions that programs coming from YapDatabase rely on. `YapRowTests` has those about
/// rows.
struct YapExtensionTests {
  /// The lines that were recorded, in order.
  final class Record: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    func take() -> [String] {
      lines.withLock { lines in
        defer { lines = [] }
        return lines
      }
    }
  }

  /// An extension that records how each write ended, refuses neighbors, and can fail to begin.
  struct Probe: DatabaseExtension {
    static let kind = "test.probe"
    typealias Shared = Record
    typealias Delta = Int
    struct Broken: Error {}
    struct Neighbour: Error {}
    let record: Record
    var isAlone = false
    var isConcurrent = false
    var isBroken: @Sendable () -> Bool = { false }
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.events = .inserts
      // An extension with a part has a record on disk.
      configuration.parts = [PartDefinition("unused")]
      configuration.isConcurrent = isConcurrent
      configuration.build = .none
      return configuration
    }
    func check(registered: [String: any DatabaseExtension]) throws {
      if isAlone, registered.values.contains(where: { $0 is Probe }) { throw Neighbour() }
    }
    func makeShared(_ view: borrowing SharedView) -> Record { record }
    func didAcknowledge(_ version: CommitVersion, _ delta: Int?, _ shared: Record) {
      if let delta { shared.add("acknowledged \(delta)") }
    }
    func makeTransaction(_ context: ExtensionContext<Self>) throws -> ProbeTransaction {
      if isBroken() { throw Broken() }
      return ProbeTransaction(context)
    }
  }

  final class ProbeTransaction: ExtensionTransaction {
    typealias Definition = Probe
    private let record: Record
    private let isWrite: Bool
    private var count = 0
    private var isCommitted = false
    init(_ context: ExtensionContext<Probe>) {
      record = context.shared
      isWrite = context.writeTransaction != nil
    }
    func didChange(_ change: borrowing RowChange) throws {
      count += 1
      record.add("\(change.event) \(change.key)")
    }
    func takeDelta(_ version: CommitVersion) -> Int? {
      isCommitted = true
      record.add("committed")
      return count
    }
    deinit { if isWrite, !isCommitted { record.add("not committed") } }
  }

  struct Stop: Error {}
  private let database: Database
  private let record = Record()
  init() throws { database = try Database.inMemory() }

  private func set(_ key: Int, in collection: String = "c") throws {
    try database.write { tx in try tx.set("x", key: key, in: collection) }
  }

  // MARK: - 1.2

  @Test func `each write that has used an extension ends it once, as committed or as not`() throws {
    let probe = try database.registerReady(Probe(record: record), as: "probe")
    _ = record.take()
    try set(1)
    #expect(record.take() == ["inserted c/1", "committed", "acknowledged 1"])
    #expect(throws: Stop.self) {
      try database.write { tx in
        try tx.set("x", key: 2, in: "c")
        throw Stop()
      }
    }
    #expect(record.take() == ["inserted c/2", "not committed"])
    #expect(throws: DatabaseError.self) {
      try database.write { tx in
        try tx.set("x", key: 2, in: "c")
        try tx.rollBack()
      }
    }
    #expect(record.take() == ["inserted c/2", "not committed"])
    try database.write { tx in _ = try tx[probe] }
    #expect(record.take() == ["not committed"], "there was nothing to commit")
    try database.read { tx in _ = try tx[probe] }
    try database.write { tx in _ = try tx.count() }
    #expect(record.take() == [], "a read, and a write that has not asked for it")
  }

  @Test func `a concurrent write that does not get the writer ends as not committed`() throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(20)
    let database = try Database.inMemory(options: options)
    try database.registerReady(Probe(record: record, isConcurrent: true), as: "probe")
    let code = Mutex<DatabaseError.Code?>(nil)
    try database.write { _ in
      try otherThread {
        let thrown = errorCode { try database.writeConcurrently { tx in try tx.set("x", key: 1, in: "c") } }
        code.withLock { $0 = thrown }
      }
    }
    #expect(code.withLock { $0 } == .writerBusy)
    #expect(record.take() == ["inserted c/1", "not committed"])
  }

  @Test func `a concurrent write that conflicts ends as not committed, and its retry as committed`()
    throws
  {
    let database = try Database.inMemory()
    try database.registerReady(Probe(record: record, isConcurrent: true), as: "probe")
    let isMet = Mutex(false)
    try database.writeConcurrently { tx in
      _ = try tx.contains(key: 1, in: "c")
      try tx.set("x", key: 2, in: "c")
      let isFirst = isMet.withLock { isMet in
        defer { isMet = true }
        return !isMet
      }
      if isFirst { try otherThread { try database.write { tx in try tx.set("y", key: 1, in: "c") } } }
    }
    #expect(
      record.take() == [
        "inserted c/2", "inserted c/1", "committed", "acknowledged 1", "not committed", "inserted c/2", "committed",
        "acknowledged 1",
      ])
  }

  @Test func `a name can be registered once, and an extension may refuse to coexist with others`() throws {
    try database.registerReady(Probe(record: record), as: "probe")
    #expect(errorCode { try database.registerReady(Probe(record: record), as: "probe") } == .alreadyDefined)
    #expect(errorCode { try database.registerReady(Probe(record: record), as: "") } == .invalidArgument)
    #expect(throws: Probe.Neighbour.self) {
      try database.registerReady(Probe(record: record, isAlone: true), as: "alone")
    }
    #expect(database.registeredExtensions == ["probe"] && database.knownExtensions == ["probe"])
    try set(1)
    #expect(record.take().contains("inserted c/1"))
    #expect(throws: DatabaseError.self) {
      try database.write { tx in try database.registerReady(Probe(record: record), as: "inside") }
    }
  }

  @Test func `using an extension while it is built throws, with the progress`() throws {
    try database.write { tx in for key in 0..<3_000 { try tx.set("a word", key: key, in: "notes") } }
    // The handle stands for the name: it is valid for the next registration too.
    let words = try database.registerReady(WordCount(), as: "words")
    try database.unregister("words")
    let errors = Mutex<[DatabaseError]>([])
    let database = database
    try database.registerReady(WordCount(), as: "words") { progress in
      guard progress.rowsDone > 0, progress.rowsDone < 3_000 else { return }
      do {
        _ = try database.read { tx in try tx[words].count(of: "word") }
      } catch {
        errors.withLock { errors in if let error = error as? DatabaseError { errors.append(error) } }
      }
    }
    let thrown = errors.withLock { $0 }
    #expect(thrown.count >= 2 && thrown.allSatisfy { $0.code == .notReady && $0.message.contains("3000") })
    #expect(try database.read { tx in try tx[words].count(of: "word") } == 3_000)
  }

  // MARK: - Recommendations

  @Test func `an extension that can't begin throws the reason, and is never silently absent`() throws {
    let isBroken = Mutex(false)
    let probe = try database.registerReady(
      Probe(record: record, isBroken: { isBroken.withLock { $0 } }), as: "probe")
    try set(1)
    isBroken.withLock { $0 = true }
    #expect(throws: Probe.Broken.self) { _ = try database.read { tx in _ = try tx[probe] } }
    #expect(throws: Probe.Broken.self) { try set(2) }
    #expect(try database.read { tx in try tx.keys(Int.self, in: "c") } == [1], "nothing is written past it")
    isBroken.withLock { $0 = false }
    try set(2)
    #expect(try database.read { tx in try tx.keys(Int.self, in: "c") } == [1, 2])
    try database.unregister("probe")
    #expect(errorCode { _ = try database.read { tx in _ = try tx[probe] } } == .unknownExtension)
  }

  @Test func `a connection pinned before the registration throws until it advances`() throws {
    try set(1, in: "notes")
    let connection = database.connection()
    try connection.beginLongLivedRead()
    let words = try database.registerReady(WordCount(), as: "words")
    func count(_ connection: Connection) throws -> Int { try connection.read { tx in try tx[words].count(of: "x") } }
    #expect(errorCode { _ = try count(connection) } == .notReady)
    #expect(try count(database.connection()) == 1)
    try connection.advance()
    #expect(try count(connection) == 1)
  }

  @Test func `an extension also receives rows that can't be decoded`() throws {
    try database.write { tx in
      try tx.set("text", key: 1, in: "c")
      try tx.set([1, 2], key: 2, in: "c")
    }
    struct Keys: DatabaseExtension {
      static let kind = "test.keys"
      let record: Record
      let configuration = ExtensionConfiguration(version: "1")
      func makeTransaction(_ context: ExtensionContext<Self>) -> KeysTransaction { KeysTransaction(record) }
    }
    final class KeysTransaction: ExtensionTransaction {
      typealias Definition = Keys
      private let record: Record
      init(_ record: Record) { self.record = record }
      func didChange(_ change: borrowing RowChange) throws {
        let row = try #require(try change.row)
        record.add("\(row.key) \((try? row.object(as: String.self)) ?? "undecoded")")
      }
    }
    try database.registerReady(Keys(record: record), as: "keys")
    #expect(record.take() == ["c/1 text", "c/2 undecoded"])
  }

  /// An extension that writes a row at the end of a transaction that inserted rows of a collection.
  struct Echo: DatabaseExtension {
    static let kind = "test.echo"
    let name: String
    let source: String
    let target: String
    let record: Record
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.events = .inserts
      configuration.keepsState = true
      configuration.build = .none
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) -> EchoTransaction { EchoTransaction(self, context) }
  }

  final class EchoTransaction: ExtensionTransaction {
    typealias Definition = Echo
    private let echo: Echo
    private let context: ExtensionContext<Echo>
    private var pending = 0
    init(_ echo: Echo, _ context: ExtensionContext<Echo>) {
      self.echo = echo
      self.context = context
    }
    func didChange(_ change: borrowing RowChange) throws { if change.collection == echo.source { pending += 1 } }
    func mark() -> Int { pending }
    func rollBack(to mark: Int) { pending = mark }
    func flush() throws {
      echo.record.add("\(echo.name) \(pending)")
      if pending == 0 { return }
      pending = 0
      try context.writeTransaction?.set(echo.name, key: 1, in: echo.target)
    }
  }

  @Test func `at the end extensions write in the order of registration, until none writes any more`()
    throws
  {
    // By name, the order would be the opposite: "a" feeds "z", which was registered first.
    try database.registerReady(Echo(name: "z", source: "middle", target: "last", record: record), as: "z")
    try database.registerReady(Echo(name: "a", source: "first", target: "middle", record: record), as: "a")
    _ = record.take()
    try set(5, in: "first")
    #expect(record.take() == ["z 0", "a 1", "z 1", "a 0", "z 0", "a 0"])
    let rows = try database.read { tx in try ["middle", "last"].map { try tx.object(String.self, key: 1, in: $0) } }
    #expect(rows == ["a", "z"])
  }

  @Test func `pending writes of an extension are undone with a savepoint`() throws {
    try database.registerReady(Echo(name: "e", source: "first", target: "last", record: record), as: "e")
    _ = record.take()
    try database.write { tx in
      try tx.set("x", key: 1, in: "other")
      try? tx.savepoint {
        try tx.set("x", key: 1, in: "first")
        throw Stop()
      }
    }
    #expect(record.take() == ["e 0"])
    #expect(try database.read { tx in try tx.contains(key: 1, in: "last") } == false)
  }
}
