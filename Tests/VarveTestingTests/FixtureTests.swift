import Foundation
import Testing
import Varve
import VarveTesting

/// Tests of fixtures: rows that a test finds in its database.
struct FixtureTests {
  private static func database() throws -> Database {
    try Database.inMemory(
      definition: DatabaseDefinition {
        BookFormat.self
        ShelfFormat.self
      })
  }

  @Test func `instances, items and rows are written with their metadata, in one transaction`() throws {
    let database = try Self.database()
    let emma = Book(id: 1, title: "Emma", authors: ["Jane Austen"])
    let before = try database.read { tx in tx.version }
    try database.fill(label: "fixture") {
      Fixture(BookFormat.self, emma, Book(id: 2, title: "Persuasion", authors: ["Jane Austen"]))
      Fixture(BookFormat.self, Book(id: 3, title: "Sanditon", authors: []), metadata: Stars(stars: 4))
      Photo(id: 1, name: "Bath", metadata: Photo.Size(width: 640))
      [Photo(id: 2, name: "Lyme"), Photo(id: 3, name: "Steventon")]
      Fixture("greetings", key: 1, "hello", metadata: ["language": "en"])
      Fixture("greetings", key: 2, "good day")
      Fixture("numbers", ["one": 1, "two": 2])
      Fixture { tx in try tx.set(Date(timeIntervalSince1970: 0), key: true, in: "dates") }
    }
    let books = Store<BookFormat>(in: database)
    try database.read { tx in
      #expect(try books.load(1, in: tx) == emma)
      #expect(try books.metadata(ids: [1, 2, 3], in: tx) == [nil, nil, Stars(stars: 4)])
      let photos = try Array(Photo.load(..., in: tx))
      #expect(photos.map(\.metadata?.width) == [640, nil, nil])
      #expect(try tx.metadata([String: String].self, key: 1, in: "greetings") == ["language": "en"])
      #expect(try tx.object(String.self, key: 2, in: "greetings") == "good day")
      #expect(try tx.object(Int.self, key: "two", in: "numbers") == 2)
      #expect(try tx.count() == 11)
      #expect(tx.version > before)
    }
  }

  @Test func `a fixture may contain branches and loops`() throws {
    func shelf(_ number: Int) -> Fixture { Fixture(ShelfFormat.self, Shelf(id: "\(number)", subject: "\(number)")) }
    func filled(_ isLarge: Bool) throws -> Int {
      let database = try Self.database().fill {
        if isLarge {
          for number in 1...10 { shelf(number) }
        } else {
          Fixture(ShelfFormat.self, Shelf(id: "one", subject: "all"))
        }
        if isLarge { Fixture("flags", key: "large", true) }
      }
      return try database.read { tx in try tx.count() }
    }
    #expect(try filled(true) == 11)
    #expect(try filled(false) == 1)
  }

  @Test func `a fixture with an existing row fails, names the row, and writes nothing`() throws {
    let database = try Self.database()
    try database.fill { Fixture("greetings", key: 1, "hello") }
    func fill(@FixtureBuilder _ more: () throws -> Fixture) -> DatabaseError? {
      databaseError {
        try database.fill {
          Fixture("greetings", key: 7, "late")
          try more()
        }
      }
    }
    let errors = [
      fill { Fixture("greetings", key: 1, "again") },
      fill { Fixture("greetings", key: 1, "again", metadata: 1) },
      fill { Fixture("greetings", [2: "new", 1: "again"]) },
    ]
    #expect(errors.map(\.?.code) == [.alreadyExists, .alreadyExists, .alreadyExists])
    #expect(errors.map(\.?.key) == ["1", "1", "1"])
    let photo = fill { [Photo(id: 1, name: "a"), Photo(id: 1, name: "b")] }
    #expect(photo?.code == .alreadyExists && photo?.collection == "photos" && photo?.key == "1")
    #expect(try database.read { tx in try tx.count() } == 1)
    #expect(try database.read { tx in try tx.object(String.self, key: 1, in: "greetings") } == "hello")
  }

  @Test func `a fixture whose closure throws writes nothing`() throws {
    let database = try Self.database()
    func book() throws -> Book { throw NoAuthor() }
    #expect(throws: NoAuthor.self) {
      try database.fill {
        Fixture("greetings", key: 1, "hello")
        Fixture(BookFormat.self, try book())
      }
    }
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  @Test func `fill is part of an enclosing perform, and writes before it returns in a task`() async throws {
    let database = try Self.database()
    struct Stop: Error {}
    await #expect(throws: Stop.self) {
      try await database.perform {
        try database.fill { Fixture("greetings", key: 1, "hello") }
        throw Stop()
      }
    }
    #expect(try reading(database) { tx in try tx.count() } == 0)
    try database.fill { Fixture("greetings", key: 1, "hello") }
    #expect(try reading(database) { tx in try tx.count() } == 1)
  }

  // MARK: - Values

  @Test func `a seed gives the same values in every run and version`() {
    var values = SampleValues(seed: 7)
    #expect(values.seed == 7)
    #expect(values.uuid().uuidString == "D70D3259-E4E1-4B63-9C66-3CF4D73C4C04")
    #expect(values.words(3) == "pigikala vuvivepo deluzalu")
    #expect(values.int(in: 1...1_000_000) == 415_032)
    #expect(values.date().timeIntervalSince1970 == 1_866_128_190)
    #expect(values.bytes(9) == [172, 248, 137, 107, 171, 176, 226, 13, 200])
    #expect(values.double() == 0.28258926757632286)
    #expect(values.element(of: ["a", "b", "c"]) == "b")
    #expect(values.bool() == true)
  }

  @Test func `another seed gives other values, and a copy of a generator advances independently`() {
    var seven = SampleValues(seed: 7)
    var eight = SampleValues(seed: 8)
    #expect(seven.uuid() != eight.uuid())
    var copy = seven
    #expect(copy.words(20) == seven.words(20))
    #expect(copy == seven)
  }

  @Test func `sample values are within their ranges, including both bounds`() {
    var values = SampleValues(seed: 1)
    let numbers = Set((0..<500).map { _ in values.int(in: -3...3) })
    #expect(numbers == Set(-3...3))
    #expect((0..<500).allSatisfy { _ in (0..<1).contains(values.double()) })
    #expect(values.int(in: 5...5) == 5)
    let wide = (0..<64).map { _ in values.int(in: .min ... .max) }
    #expect(wide.contains { $0 < 0 } && wide.contains { $0 > 0 })
    #expect(Set((0..<100).map { _ in values.uuid() }).count == 100)
    #expect((0..<100).allSatisfy { _ in values.uuid().uuidString.split(separator: "-")[2].hasPrefix("4") })
    #expect(values.words(5).split(separator: " ").count == 5)
    #expect(values.words(0).isEmpty && values.bytes(0).isEmpty)
    #expect(Set((0..<100).map { _ in values.bool() }).count == 2)
  }
}
