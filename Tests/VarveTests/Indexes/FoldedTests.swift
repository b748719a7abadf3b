import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of case- and diacritic-insensitive strings, and of indexes of them.
struct FoldedTests {
  @Test func `case and diacritics of letters are removed`() {
    for (text, form) in [
      ("Émile", "emile"), ("EMILE", "emile"), ("e\u{301}", "e"), ("Straße", "strasse"), ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
      ("σίσυφος", "σισυφοσ"),
      ("İstanbul", "istanbul"), ("ŁÓDŹ", "łodz"), ("Ångström", "angstrom"), ("ﬁ", "fi"), ("naïve 1\0", "naive 1\0"),
      ("한글", "한글"),
      ("हिन्दी", "हिन्दी"), ("", ""), ("👩‍👩‍👧", "👩‍👩‍👧"),
    ] {
      #expect(text.folded == form, "\(text)")
      #expect(form.folded == form)
    }
  }

  @Test func `the folded form agrees with the case mappings of the standard library`() {
    for value in UInt32(0)...0x1_ffff {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let text = String(scalar)
      // Both cases of a character have one form, with a few exceptions that have no simple case mapping.
      if text.uppercased().lowercased() == text.lowercased() {
        #expect(text.uppercased().folded == text.lowercased().folded)
      }
    }
  }

  struct Person: Codable, Identifiable, Sendable {
    var id: Int
    var name: String
    var nick: String?
  }

  struct PersonFormat: StoreFormat {
    typealias Instance = Person
    static let collection = "people"
    let name = Index({ $0.name.folded })
    let nick = Index({ $0.nick.folded })
  }

  @Test func `an index of the folded form needs no version, and queries use it`() throws {
    let indexes = try FormatIndexes<PersonFormat>.found().list
    #expect(indexes.map(\.definition).contains { $0.contains("|name.folded17") })
    #expect(indexes.map(\.definition).contains { $0.contains("|nick.folded17") })
    let database = try Database.inMemory { PersonFormat.self }
    let people = Store<PersonFormat>(in: database)
    try database.write { tx in
      for (id, name) in ["Émile", "emil", "EMMA", "Zoë"].enumerated() {
        try people.persist(Person(id: id, name: name, nick: id == 0 ? nil : name), in: tx)
      }
    }
    try database.read { tx throws in
      let query = people.query.filter { $0.name.folded.hasPrefix("ÉMI".folded) }.sorted(by: \.name.folded)
      #expect(try query.explain(in: tx).description == "index \"name\", 1 range of 1 field\nin order")
      #expect(try query.ids(in: tx) == [1, 0])
      #expect(try people.query.filter { $0.nick.folded == "zoe" }.ids(in: tx) == [3])
      #expect(try Array(people.load("emma", from: \.name, in: tx)).map(\.id) == [2])
    }
  }
}
