import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of indexes that store prefixes of texts.
struct PrefixIndexTests {
  fileprivate struct Note: Codable, Hashable, Identifiable, Sendable {
    var id: Int
    var year = 2000
    var text: String
    var more: String?
    var bytes = Data()
  }

  fileprivate struct NoteFormat: StoreFormat {
    typealias Instance = Note
    static let collection = "notes"
    let text = Index(\.text, prefix: 4)
    @Direct var more = Index(\.more, prefix: 3, name: "more")
    let byYear = Index(\.year, \.text, prefix: 4)
    let bytes = Index(\.bytes, prefix: 2)
  }

  private static func filled(_ notes: [Note]) throws -> (Database, Store<NoteFormat>) {
    let database = try Database.inMemory { NoteFormat.self }
    let store = Store<NoteFormat>(in: database)
    try database.write { tx in try store.persist(contentsOf: notes, in: tx) }
    return (database, store)
  }

  @Test func `a text's key ends with the character at the size limit, and never changes the order`() throws {
    let size = 4
    func key(_ text: String) -> [UInt8] {
      var encoder = KeyEncoder()
      text.encodeKey(into: &encoder)
      KeyPrefix(size: size).cut(&encoder, from: 0)
      return encoder.bytes
    }
    #expect(try key("abc") == "abc".encoded())
    #expect(try key("abcd") == "abcd".encoded())
    #expect(try key("abcdef") == "abcd".encoded())
    #expect(try key("abcéf") == "abcé".encoded())
    #expect(try key("abc\u{10348}f") == "abc\u{10348}".encoded())
    #expect(try key("ab\u{0}cd") == "ab\u{0}".encoded())
    #expect(try key("abc\u{0}d") == "abc\u{0}".encoded())
    var random = SeededRandom(seed: 7)
    let letters = ["a", "b", "é", "\u{0}", "漢", "\u{10348}", "\u{FFFF}"]
    let texts = (0..<400).map { _ in
      (0..<Int.random(in: 0...7, using: &random)).map { _ in letters.randomElement(using: &random)! }.joined()
    }
    for (left, right) in zip(texts, texts.shuffled(using: &random)) {
      let (whole, cut) = (
        ByteOrder.compare(try left.encoded(), try right.encoded()), ByteOrder.compare(key(left), key(right))
      )
      #expect(cut == 0 || cut.signum() == whole.signum())
      #expect(ByteOrder.compare(key(left), try left.encoded()) <= 0)
      // A range that begins at a text includes the prefixes of all texts that are not before it.
      if whole >= 0 {
        #expect(!ByteOrder.precedes(key(left), KeyPrefix(size: size).lower(try right.encoded(), after: 0)))
      }
    }
  }

  @Test func `texts that differ only after their prefixes are distinguished by their rows`() async throws {
    let texts = ["abcd", "abcde", "abcdf", "abc", "b", "abcdeé"]
    let (database, notes) = try Self.filled(texts.enumerated().map { Note(id: $0, text: $1, more: $0 == 4 ? nil : $1) })
    func ids(_ cursor: (ReadTransaction) throws -> StoreCursor<Note>) throws -> [Int] {
      try database.core.read { tx in try Array(cursor(tx)).map(\.id) }
    }
    #expect(try ids { try notes.load(.value("abcde"), from: \.text, in: $0) } == [1])
    #expect(try ids { try notes.load(.value("abcd"), from: \.text, in: $0) } == [0])
    #expect(try ids { try notes.load(.range("abcde"...), from: \.text, in: $0) } == [1, 2, 5, 4])
    #expect(try ids { try notes.load(.range("abcde"...), from: \.text, limit: 2, in: $0) } == [1, 2])
    #expect(try ids { try notes.load(.range(..<"abcde"), from: \.text, descending: true, in: $0) } == [0, 3])
    #expect(try ids { try notes.load(.value("abcdf"), from: \.more, in: $0) } == [2])
    #expect(try ids { try notes.load(.value(nil), from: \.more, in: $0) } == [4])
    #expect(try ids { try notes.load(.value(Compound(2000, "abcde")), from: \.byYear, in: $0) } == [1])
    #expect(try ids { try notes.load(.prefix(2000), from: \.byYear, in: $0) }.sorted() == [0, 1, 2, 3, 4, 5])
    #expect(try await notes.count(.range("abcde"...), from: \.text) == 4)
    #expect(try await notes.count(.value("abcdf"), from: \.more) == 1)
    try database.core.read { tx throws in
      var cursor = try notes.load(.all, from: \.text, in: tx)
      try cursor.seek(to: "abcdf")
      #expect(try Array(cursor).map(\.id) == [2, 4])
    }
    #expect(try await notes.verifyIndexes().isEmpty)
  }

  @Test func `queries use prefix indexes for conditions, and not for orders and values`() throws {
    let texts = ["abcd", "abcde", "abcdf", "abc", "b", "abcdeé"]
    let (database, notes) = try Self.filled(texts.enumerated().map { Note(id: $0, text: $1, more: $1) })
    try database.read { tx throws in
      func ids(_ query: StoreQuery<NoteFormat>) throws -> [Int] { try query.fetch(in: tx).map(\.id).sorted() }
      #expect(try ids(notes.query.filter { $0.text == "abcde" }) == [1])
      #expect(try ids(notes.query.filter { $0.text.isIn(["abcde", "abcdf", "b"]) }) == [1, 2, 4])
      #expect(try ids(notes.query.filter { $0.text.hasPrefix("abcde") }) == [1, 5])
      #expect(try ids(notes.query.filter { $0.text > "abcd" && $0.text < "abcdf" }) == [1, 5])
      #expect(try notes.query.filter { $0.text.hasPrefix("abcd") }.count(in: tx) == 4)
      #expect(
        try notes.query.filter { $0.text >= "abcd" }.sorted(by: \.text).fetch(in: tx).map(\.text)
          == texts.filter { $0 >= "abcd" }.sorted())
      #expect(
        try notes.query.filter { $0.text >= "abcde" }.values(of: \.text, in: tx).sorted() == [
          "abcde", "abcdeé", "abcdf", "b",
        ])
      #expect(try ids(notes.query.filter { $0.year == 2000 && $0.text == "abcdf" }) == [2])
      #expect(errorCode { _ = try notes.query.sorted(by: \.text).limit(1).explain(in: tx) } == nil)
    }
  }

  @Test func `a prefix of a type other than text, or of zero bytes, is refused`() {
    struct YearFormat: StoreFormat {
      typealias Instance = Note
      static let collection = "notes"
      let year = Index(\.year, prefix: 4)
    }
    struct EmptyFormat: StoreFormat {
      typealias Instance = Note
      static let collection = "notes"
      let text = Index(\.text, prefix: 0)
    }
    #expect(errorCode { _ = try Database.inMemory { YearFormat.self } } == .invalidDefinition)
    #expect(errorCode { _ = try Database.inMemory { EmptyFormat.self } } == .invalidDefinition)
  }
}
