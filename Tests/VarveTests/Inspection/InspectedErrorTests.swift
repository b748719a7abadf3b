import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve
@testable import VarveInspection

/// Tests of wrong positions, names, ranges and entries, which have errors that say what is wrong.
struct InspectedErrorTests {
  private struct Otherwise: StoreFormat {
    typealias Instance = Volume
    static let collection = "volumes"
    let title = Index(\.year)
    let byYear = Index(\.year, \.title)
  }

  private struct Shelves: StoreFormat {
    struct Instance: Codable, Identifiable, Sendable {
      var id: String
    }
    static let collection = "shelves"
    let title = Index(\.id)
  }

  private let shared: SharedBackend

  init() throws {
    shared = try SharedBackend()
    try writing(VolumeFormat.self) { store, tx in
      try store.persist(contentsOf: (1...6).map { Volume(id: $0, title: "t\($0)") }, in: tx)
    }
  }

  private func writing<Format: StoreFormat>(
    _ format: Format.Type, _ body: (Store<Format>, WriteTransaction) throws -> Void
  ) throws {
    let database = try shared.open(DatabaseDefinition { format })
    let store = Store<Format>(in: database)
    try store.warm()
    try database.write { tx in try body(store, tx) }
    try database.endNow()
  }

  private func inspector() throws -> DatabaseInspector { try DatabaseInspector(shared, path: "shared") }

  private func error(_ body: () throws -> Void) -> DatabaseError? {
    do { try body() } catch { return error as? DatabaseError }
    return nil
  }

  @Test(
    "a text that is not a position is refused, as text and as JSON",
    arguments: ["", "f", "x00", "f0", "fzz", "r00000001", "i0000000100000001", "r0000000", "f 01", "é00", "f\u{301}00"])
  func texts(_ text: String) throws {
    let plain = error { _ = try InspectedPosition(text) }
    #expect(plain?.code == .invalidArgument && plain?.message.contains("\"\(text)\"") == true)
    let json = try JSONEncoder().encode(text)
    #expect(error { _ = try JSONDecoder().decode(InspectedPosition.self, from: json) }?.code == .invalidArgument)
  }

  @Test("a position of another list is refused, whatever kind of list it is")
  func lists() throws {
    let database = try shared.open(
      DatabaseDefinition {
        VolumeFormat.self
        Shelves.self
      })
    let store = Store<Shelves>(in: database)
    try store.warm()
    try database.write { tx in _ = try store.persist(Shelves.Instance(id: "s"), in: tx) }
    try database.endNow()
    let inspector = try inspector()
    let (volumes, shelves) = (try inspector.collection("volumes"), try inspector.collection("shelves"))
    let (title, byYear) = (try inspector.index("title", of: "volumes"), try inspector.index("byYear"))
    let ofShelves = try inspector.index("title", of: "shelves")
    var rows = try inspector.rows(in: volumes)
    var byTitle = try inspector.rows(of: title)
    let row = try #require(try rows.next()).position
    let entry = try #require(try byTitle.next()).position
    let commit = try #require(try inspector.feed(limit: 1).elements.first).position
    for position in [entry, commit] {
      #expect(error { _ = try inspector.rows(in: volumes, after: position) }?.code == .invalidArgument)
    }
    for position in [row, commit] {
      #expect(error { _ = try inspector.rows(of: title, after: position) }?.code == .invalidArgument)
    }
    for position in [row, entry] {
      #expect(error { _ = try inspector.feed(before: position, limit: 1) }?.code == .invalidArgument)
      #expect(error { _ = try inspector.feed(after: position, limit: 1) }?.code == .invalidArgument)
    }
    for index in [byYear, ofShelves] {
      let other = error { _ = try inspector.rows(of: index, after: entry) }
      #expect(other?.code == .invalidArgument)
      #expect(other?.message.contains("\"\(index.name)\"") == true, "\(other as Any)")
    }
    let other = error { _ = try inspector.rows(in: shelves, after: row) }
    #expect(other?.code == .invalidArgument && other?.message.contains("\"shelves\"") == true)
    let short = try InspectedPosition("f0001")
    #expect(error { _ = try inspector.feed(before: short, limit: 1) }?.code == .invalidArgument)
    for limit in [0, -1, .min] {
      #expect(error { _ = try inspector.feed(limit: limit) }?.code == .invalidArgument)
      #expect(error { _ = try rows.page(limit: limit) }?.code == .invalidArgument)
    }
  }

  @Test("a position in an index has expired if the values of the index have another type, and not otherwise")
  func expired() throws {
    let before = try inspector()
    var byTitle = try before.rows(of: try before.index("title"))
    var byYear = try before.rows(of: try before.index("byYear"))
    let (title, year) = (try byTitle.page(limit: 2).next, try byYear.page(limit: 2).next)
    try writing(Otherwise.self) { _, _ in }
    let after = try inspector()
    #expect(error { _ = try after.rows(of: try after.index("title"), after: title) }?.code == .cursorExpired)
    var rest = try after.rows(of: try after.index("byYear"), after: year)
    #expect(try rest.page(limit: 9).elements.map { $0.key?.text } == ["3", "4", "5", "6"])
  }

  @Test("an unknown name has the names that exist, and one of several collections needs the collection")
  func names() throws {
    try writing(Shelves.self) { store, tx in _ = try store.persist(Shelves.Instance(id: "s"), in: tx) }
    let inspector = try inspector()
    let unknown = error { _ = try inspector.index("titel", of: "volumes") }
    #expect(unknown?.code == .notFound)
    #expect(unknown?.message.contains("\"titel\"; there are \"added\" of volumes, ") == true, "\(unknown as Any)")
    #expect(unknown?.message.contains("\"title\" of volumes") == true)
    #expect(unknown?.message.contains("shelves") == false)
    let several = error { _ = try inspector.index("title") }
    #expect(several?.code == .invalidArgument && several?.message.contains("shelves, volumes") == true)
    #expect(try inspector.index("title", of: "shelves").collection == "shelves")
    #expect(error { _ = try inspector.index("title", of: "none") }?.code == .notFound)
    let bare = try shared.open()
    try bare.write { tx in try tx.set(1, key: 1, in: "bare") }
    let none = error { _ = try DatabaseInspector(bare).index("title", of: "bare") }
    #expect(none?.code == .notFound && none?.message.contains("there are none") == true)
    try bare.endNow()
  }

  @Test("ranges that the values of an index have not are refused with the type of the values")
  func ranges() throws {
    let inspector = try inspector()
    let (byYear, title) = (try inspector.index("byYear"), try inspector.index("title"))
    for text in ["Emma", "(1990, 1990)", "(1990, \"a\", 1)", ""] {
      let wrong = error { _ = try byYear.range(equalTo: text) }
      #expect(wrong?.code == .invalidKey && wrong?.message.contains("compound(int,string)") == true, "\(text)")
      #expect(error { _ = try byYear.range(from: text, to: nil) }?.code == .invalidKey)
      #expect(error { _ = try byYear.range(from: nil, to: text) }?.code == .invalidKey)
    }
    let weight = try inspector.index("weight")
    #expect(error { _ = try weight.range(from: nil, to: nil, prefix: "1") }?.code == .invalidArgument)
    var none = try inspector.rows(of: title, range: try title.range(from: "z", to: "a"))
    let page = try none.page(limit: 3)
    #expect(page.elements.isEmpty && page.next == nil)
  }

  @Test("an index without all rows is not listed")
  func incomplete() throws {
    let other = try shared.open()
    try other.write { tx in try tx.remove(key: 1, in: "volumes") }
    // A program without the format changes a row, so the index is stale.
    try other.write { tx in try tx.set(Volume(id: 2, title: "later"), key: 2, in: "volumes") }
    try other.endNow()
    let inspector = try inspector()
    let index = try inspector.index("title")
    #expect(index.state == .stale)
    let refused = error { _ = try inspector.rows(of: index) }
    #expect(refused?.code == .notReady && refused?.message.contains("has missed changes") == true)
  }

  @Test("an entry that can't be read, or leads to no row, is an error of that entry, and the list continues")
  func damage() throws {
    let sound = try inspector()
    let index = try sound.index("title")
    let entries = try #require(index.entries)
    var batch = StorageBatch()
    batch.put(IndexFormat.entry(value: try "t3".encoded(), row: try 99.encoded()), [], in: entries)
    batch.put([9, 200], [], in: entries)
    try shared.commit(batch, check: nil, durability: .process).wait()
    let inspector = try inspector()
    for isReverse in [false, true] {
      var texts: [String] = []
      var position: InspectedPosition?
      repeat {
        var rows = try inspector.rows(of: try inspector.index("title"), isReverse: isReverse, after: position)
        let page = try rows.page(limit: 1)
        for row in page.elements {
          do { texts.append(try row.row().key.text) } catch let error as DatabaseError {
            #expect(error.code == .corruption && error.message.contains("\"title\""))
            texts.append(error.key ?? row.value)
          }
        }
        position = page.next
      } while position != nil && texts.count < 100
      let expected = ["<invalid 0x09c8>", "1", "2", "3", "99", "4", "5", "6"]
      #expect(texts == (isReverse ? expected.reversed() : expected))
    }
  }
}
