import EngineTestSupport
import Testing
import Varve
import VarveTestSupport

private struct Line: Codable, Identifiable, Sendable {
  var id: Int
  var text: String
}

private struct LineFormat: StoreFormat {
  static let collection = "lines"
  typealias Instance = Line
  let text = Index(\.text)
}

/// Tests that reads which take long do not stop the other calls of a database, however many they are.
struct LongReadTests {
  @Test func `every awaited call returns while 64 reads are under way`() async throws {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", options: .patient) { LineFormat.self }
    let store = Store<LineFormat>(in: database)
    try await store.persist(contentsOf: (0..<100).map { Line(id: $0, text: "line \($0)") })
    let gate = Gate()
    gate.shut()
    let reads = (0..<64).map { number in
      Task.detached {
        try await number % 2 == 0
          ? database.read { _ in gate.pass() } : database.writeConcurrently { _ in gate.pass() }
      }
    }
    await gate.waitUntilHeld(64)

    #expect(try await store.query.filter { $0.text == "line 3" }.count() == 1)
    #expect(try await store.load(...).collect().count == 100)
    #expect(try await database.connection().read { tx in try tx.count(in: "lines") } == 100)
    #expect(try await database.connection().advance().isEmpty)
    #expect(try await database.feed().count > 0)
    for try await count in store.query.scan().observeCount() {
      #expect(count == 100)
      break
    }
    for try await line in database.observe(Line.self, key: 1, in: "lines") {
      #expect(line?.id == 1)
      break
    }
    try await store.persist(Line(id: 100, text: "written"))
    try await store.persist(Line(id: 101, text: "written"), durability: .power)
    try await database.writeConcurrently { tx in try store.persist(Line(id: 102, text: "written"), in: tx) }
    try await database.writeConcurrently(durability: .power) { tx in
      try store.persist(Line(id: 103, text: "written"), in: tx)
    }
    try await database.perform { try await store.persist(Line(id: 104, text: "written")) }
    try await database.sync()
    try await database.backup(to: directory.path + "/copy")
    #expect(try await store.verifyIndexes().isEmpty)
    try await store.rebuild(\.text)
    #expect(try await store.count == 105)
    #expect(gate.waitingCount == 64)

    gate.open()
    for read in reads { try await read.value }
    try await database.close()
  }
}
