import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve
@testable import VarveInspection

enum JSONText {
  static func encoded(_ value: some Encodable) throws -> Data { try JSONEncoder().encode(value) }
  static func decoded<Value: Decodable>(_ type: Value.Type, _ data: Data) throws -> Value {
    try JSONDecoder().decode(type, from: data)
  }
}

/// Tests of rows by their keys and by an index, page by page, in both directions.
struct InspectedListTests {
  private static func volume(_ id: Int, _ random: inout SeededRandom) -> Volume {
    Volume(
      id: id, title: ["Emma", "Evelina", "Ulysses", "Lilith"][random.below(4)], year: 1990 + random.below(4),
      isbn: random.oneIn(3) ? nil : "isbn \(id)", tags: Array(["a", "b", "c"].prefix(random.below(4))),
      shelf: random.oneIn(2) ? .fiction : .science)
  }

  private static let definition = DatabaseDefinition { VolumeFormat.self }

  /// An element of a list: what an index says of a row, and the row.
  private struct Found: Hashable, Comparable {
    var value: String
    var id: Int

    static func < (left: Found, right: Found) -> Bool { (left.value, left.id) < (right.value, right.id) }
  }

  /// A list that a test reads page by page, and what it must have.
  private struct Listed {
    let name: String
    let page: (DatabaseInspector, Bool, InspectedPosition?, Int) throws -> InspectedPage<Found>
    let expected: ([Int: Volume]) -> [Found]
  }

  private static func id(_ key: RowKey?) throws -> Int { try #require(key.flatMap { Int($0.text) }) }

  /// A list of an index, whose values are compared as texts: all have as many digits.
  private static func byIndex(
    _ name: String, range: @escaping (InspectedIndex) throws -> StorageRange? = { _ in nil },
    _ values: @escaping (Volume) -> [String]
  ) -> Listed {
    Listed(name: name) { inspector, isReverse, position, limit in
      let index = try inspector.index(name, of: "volumes")
      var rows = try inspector.rows(of: index, range: try range(index), isReverse: isReverse, after: try sent(position))
      let page = try rows.page(limit: limit)
      let found = try page.elements.map { row in
        #expect(try row.row().contents().object.json?.contains("\"title\"") == true)
        return Found(value: row.value, id: try id(row.key))
      }
      return InspectedPage(elements: found, next: page.next)
    } expected: { volumes in
      volumes.values.flatMap { volume in values(volume).map { Found(value: $0, id: volume.id) } }.sorted()
    }
  }

  private static func byKey(_ from: String?, _ to: String?, _ keeps: @escaping (Int) -> Bool) -> Listed {
    Listed(name: "keys \(from ?? "") to \(to ?? "")") { inspector, isReverse, position, limit in
      let collection = try inspector.collection("volumes")
      let range = try collection.range(from: from, to: to)
      var rows = try inspector.rows(in: collection, range: range, isReverse: isReverse, after: try sent(position))
      let page = try rows.page(limit: limit)
      return InspectedPage(
        elements: try page.elements.map { Found(value: "", id: try id($0.key)) }, next: page.next)
    } expected: { volumes in
      volumes.keys.filter(keeps).sorted().map { Found(value: "", id: $0) }
    }
  }

  private static var lists: [Listed] {
    [
      byKey(nil, nil) { _ in true }, byKey("8", "30") { 8..<30 ~= $0 },
      byIndex("title") { ["\"\($0.title)\""] },
      byIndex("title", range: { try $0.range(equalTo: "Emma") }) { $0.title == "Emma" ? ["\"Emma\""] : [] },
      byIndex("title", range: { try $0.range(from: nil, to: nil, prefix: "E") }) {
        $0.title.hasPrefix("E") ? ["\"\($0.title)\""] : []
      },
      byIndex("title", range: { try $0.range(from: "Evelina", to: "\"Ulysses\"") }) {
        $0.title >= "Evelina" && $0.title < "Ulysses" ? ["\"\($0.title)\""] : []
      },
      byIndex("byYear") { ["(\($0.year), \"\($0.title)\")"] },
      byIndex("byYear", range: { try $0.range(equalTo: "1991") }) {
        $0.year == 1991 ? ["(\($0.year), \"\($0.title)\")"] : []
      },
      byIndex("byYear", range: { try $0.range(equalTo: "(1991, \"Emma\")") }) {
        $0.year == 1991 && $0.title == "Emma" ? ["(1991, \"Emma\")"] : []
      },
      byIndex("byYear", range: { try $0.range(from: "1991", to: "1993") }) {
        1991..<1993 ~= $0.year ? ["(\($0.year), \"\($0.title)\")"] : []
      },
      byIndex("tags") { $0.tags.map { "\"\($0)\"" } },
      byIndex("isbn", range: { try $0.range(from: "isbn", to: nil) }) { $0.isbn.map { ["\"\($0)\""] } ?? [] },
      byIndex("isbn", range: { try $0.range(equalTo: "nil") }) { $0.isbn == nil ? ["nil"] : [] },
      byIndex("isbn", range: { try $0.range(from: nil, to: nil, prefix: "isbn 1") }) {
        $0.isbn?.hasPrefix("isbn 1") == true ? ["\"\($0.isbn ?? "")\""] : []
      },
      byIndex("byShelf", range: { try $0.range(equalTo: "(\"science\", 1992)") }) {
        $0.shelf == .science && $0.year == 1992 ? ["(\"science\", 1992)"] : []
      },
    ]
  }

  /// Reads a list page by page while nothing changes.
  private func whole(_ list: Listed, _ site: InspectedSite, _ isReverse: Bool, _ size: Int) throws -> [Found] {
    let inspector = try site.inspector()
    var found: [Found] = []
    var position: InspectedPosition?
    repeat {
      let page = try list.page(inspector, isReverse, position, size)
      #expect(page.elements.count == size || page.next == nil, "only the last page is shorter")
      found += page.elements
      position = page.next
    } while position != nil && found.count < 1_000
    return found
  }

  @Test("pages together are the whole list, in both directions and of each size", arguments: InspectedKind.allCases)
  func pages(_ kind: InspectedKind) throws {
    var random = SeededRandom(seed: 48_300)
    let site = try InspectedSite(kind, Self.definition)
    let store = Store<VolumeFormat>(in: site.database)
    var volumes: [Int: Volume] = [:]
    for id in 1...40 { volumes[id] = Self.volume(id, &random) }
    try site.database.write { tx in try store.persist(contentsOf: volumes.values, in: tx) }
    for list in Self.lists {
      let expected = list.expected(volumes)
      #expect(!expected.isEmpty, "\(list.name)")
      for size in [1, 3, 7, 40, .max] {
        #expect(try whole(list, site, false, size) == expected, "\(list.name), pages of \(size)")
        #expect(try whole(list, site, true, size) == expected.reversed(), "\(list.name), pages of \(size), reversed")
      }
    }
    try site.end()
  }

  @Test(
    "a position stays valid while rows come and go, also its own, and each page has what follows it at that time",
    arguments: InspectedKind.allCases)
  func changes(_ kind: InspectedKind) throws {
    let seed: UInt64 = 48_310
    var random = SeededRandom(seed: seed)
    let site = try InspectedSite(kind, Self.definition)
    let store = Store<VolumeFormat>(in: site.database)
    for (number, list) in Self.lists.enumerated() {
      for isReverse in [false, true] {
        let note = Comment("\(list.name) (\(number)), reversed: \(isReverse), seed \(seed)")
        var volumes: [Int: Volume] = [:]
        for id in 1...30 { volumes[id] = Self.volume(id, &random) }
        try site.database.write { tx in
          _ = try store.delete(..., in: tx)
          try store.persist(contentsOf: volumes.values, in: tx)
        }
        let size = 1 + random.below(4)
        var position: InspectedPosition?
        var last: Found?
        repeat {
          let page = try list.page(try site.inspector(), isReverse, position, size)
          let all = isReverse ? list.expected(volumes).reversed() : list.expected(volumes)
          let rest = all.filter { found in last.map { isReverse ? found < $0 : $0 < found } ?? true }
          #expect(page.elements == Array(rest.prefix(size)), note)
          #expect((page.next == nil) == (rest.count <= size), note)
          position = page.next
          last = page.elements.last ?? last
          // The row of the position goes, and others change on both sides of it.
          var gone = Set((0..<2).map { _ in 1 + random.below(35) })
          if let last { gone.insert(last.id) }
          let new = (0..<3).map { _ in Self.volume(1 + random.below(35), &random) }
          try site.database.write { tx in
            _ = try store.delete(ids: gone, in: tx)
            for volume in new { try store.persist(volume, in: tx) }
          }
          for id in gone { volumes[id] = nil }
          for volume in new { volumes[volume.id] = volume }
        } while position != nil
      }
    }
    try site.end()
  }

  @Test("a page before an element is read in the other direction from its position")
  func back() throws {
    let site = try InspectedSite(.open, Self.definition)
    let store = Store<VolumeFormat>(in: site.database)
    try site.database.write { tx in
      try store.persist(contentsOf: (1...9).map { Volume(id: $0, title: "t\($0 % 3)") }, in: tx)
    }
    let inspector = try site.inspector()
    let index = try inspector.index("title")
    var rows = try inspector.rows(of: index)
    let page = try rows.page(limit: 5)
    #expect(page.elements.map { $0.key?.text } == ["3", "6", "9", "1", "4"])
    var back = try inspector.rows(of: index, isReverse: true, after: page.elements[3].position)
    #expect(try back.page(limit: 2).elements.map { $0.key?.text } == ["9", "6"])
    // A list that was read by pages continues, element by element.
    #expect(try rows.next()?.key?.text == "7" && rows.next()?.key?.text == "2")
    let books = try inspector.collection("volumes")
    let five = try #require(try inspector.row(key: try books.key("5"), in: books))
    var before = try inspector.rows(in: books, isReverse: true, after: five.position)
    #expect(try before.page(limit: 2).elements.map(\.key.text) == ["4", "3"])
    try site.end()
  }

  @Test("an inspector shows its own state, and one of a closed database throws")
  func states() throws {
    let site = try InspectedSite(.open, Self.definition)
    let store = Store<VolumeFormat>(in: site.database)
    try site.database.write { tx in _ = try store.persist(Volume(id: 1, title: "a"), in: tx) }
    let first = try site.inspector()
    try site.database.write { tx in _ = try store.persist(Volume(id: 2, title: "b"), in: tx) }
    let second = try site.inspector()
    #expect(first.version < second.version && site.database.longLivedReads.count == 2)
    #expect(try first.collection("volumes").rowCount == 1 && second.collection("volumes").rowCount == 2)
    // Closing does not close a database that was open already.
    try second.close()
    #expect(try second.collections { throw $0 }.count == 1)
    try site.end()
    #expect(errorCode { _ = try second.collection("volumes") } == .closed)
    #expect(errorCode { _ = try second.present() } == .closed)
    #expect(errorCode { _ = try DatabaseInspector(site.database) } == .closed)
  }
}
