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
    let indexes = try DeclaredIndexes<PersonFormat>.found().list
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
      #expect(try Array(people.load(.value("emma"), from: \.name, in: tx)).map(\.id) == [2])
    }
  }

  // MARK: - Operands

  struct Word: Codable, Identifiable, Sendable {
    var id: Int
    var text: String
    var other: String?
  }

  struct WordFormat: StoreFormat {
    typealias Instance = Word
    static let collection = "words"
    let text = Index({ $0.text.folded })
    let other = Index({ $0.other.folded })
    let both = Index({ $0.text.folded }, { $0.id })
    let reversed = Index({ $0.text.folded.descending }, { $0.text })
    let greeting = Index(\.id, where: { $0.text.folded == "HÉLLO" })
  }

  private static func words() throws -> (Database, Store<WordFormat>) {
    let database = try Database.inMemory { WordFormat.self }
    let words = Store<WordFormat>(in: database)
    try database.write { tx in
      for (id, text) in ["Hello", "Zoë", "apple"].enumerated() {
        try words.persist(Word(id: id, text: text, other: id == 2 ? nil : text), in: tx)
      }
    }
    return (database, words)
  }

  @Test func `operands of a folded field are folded, with an index and without`() throws {
    let (database, words) = try Self.words()
    typealias Make = (Fields<Word>) -> Condition<Word>
    let conditions: [(Make, [Int])] = [
      ({ $0.text.folded == "HELLO" }, [0]), ({ $0.other.folded == "HÉLLO" }, [0]), ({ $0.other.folded == nil }, [2]),
      ({ $0.text.folded != "HELLO" }, [1, 2]), ({ $0.other.folded != "HELLO" }, [1, 2]),
      ({ $0.text.folded.isIn(["HELLO", "ZOE", "x"]) }, [0, 1]), ({ $0.other.folded.isIn(["HELLO", nil]) }, [0, 2]),
      ({ $0.text.folded.isIn("B"..."Hello") }, [0]), ({ $0.other.folded.isIn("B"..."Hello") }, [0]),
      ({ $0.text.folded.isIn("HELLO"..<"ZOE") }, [0]), ({ $0.other.folded.isIn("HELLO"..<"ZOE") }, [0]),
      // The folded bounds are in the other order.
      ({ $0.text.folded.isIn("Z"..."a") }, []), ({ $0.other.folded.isIn("Z"..<"a") }, []),
      ({ $0.text.folded < "HELLO" }, [2]), ({ $0.text.folded <= "HELLO" }, [0, 2]),
      ({ $0.text.folded > "HELLO" }, [1]), ({ $0.text.folded >= "HELLO" }, [0, 1]),
      ({ $0.other.folded < "ZOE" }, [0]), ({ $0.other.folded <= "ZOE" }, [0, 1]),
      ({ $0.other.folded > "HELLO" }, [1]), ({ $0.other.folded >= "HELLO" }, [0, 1]),
      ({ $0.text.folded.hasPrefix("HEL") }, [0]), ({ $0.other.folded.hasPrefix("HÉL") }, [0]),
      ({ $0.text.folded.contains("ELL") }, [0]), ({ $0.other.folded.contains("ÉLL") }, [0]),
    ]
    try database.read { tx throws in
      for (number, (make, ids)) in conditions.enumerated() {
        let query = words.query.filter(Condition(make))
        #expect(try query.scan().ids(in: tx).sorted() == ids, "condition \(number), all rows")
        if try query.scan().explain(in: tx).description.contains("index") {
          #expect(try query.ids(in: tx).sorted() == ids, "condition \(number), an index")
        }
      }
      #expect(try words.query.filter { $0.text.folded == "HELLO" && $0.id == 0 }.ids(in: tx) == [0])
    }
  }

  @Test func `operands of a folded field are folded in predicates and partial conditions`() throws {
    let (database, words) = try Self.words()
    try database.read { tx throws in
      let predicates: [(Predicate<Word>, [Int])] = [
        (#Predicate { $0.text.folded == "HÉLLO" }, [0]), (#Predicate { $0.text.folded != "HELLO" }, [1, 2]),
        (#Predicate { $0.text.folded <= "HELLO" }, [0, 2]), (#Predicate { "HELLO" < $0.text.folded }, [1]),
        (#Predicate { ["HELLO", "ZOE"].contains($0.text.folded) }, [0, 1]),
        (#Predicate { $0.text.folded.starts(with: "HEL") }, [0]),
      ]
      for (number, (predicate, ids)) in predicates.enumerated() {
        #expect(try words.query.filter(predicate).scan().ids(in: tx).sorted() == ids, "predicate \(number)")
      }
      #expect(try words.query.filter(predicates[0].0).explain(in: tx).description.contains("index"))
      #expect(try words.load(.all, from: \.greeting, in: tx).ids() == [0])
    }
  }

  @Test func `arguments of loads from a folded index are folded`() throws {
    let (database, words) = try Self.words()
    try database.read { tx throws in
      #expect(try words.load(.value("HELLO"), from: \.text, in: tx).ids() == [0])
      #expect(try words.load(.range("HELLO"..."ZOË"), from: \.text, in: tx).ids() == [0, 1])
      #expect(try words.load(.range("HELLO" ..> "ZOË"), from: \.text, in: tx).ids() == [1])
      #expect(try words.load(.range("HELLO"...), from: \.text, in: tx).ids() == [0, 1])
      #expect(try words.load(.range(..<"HELLO"), from: \.text, in: tx).ids() == [2])
      #expect(try words.count(.value("HELLO"), from: \.text, in: tx) == 1)
      #expect(try words.load(.value("HÉLLO"), from: \.other, in: tx).ids() == [0])
      #expect(try words.load(.range("HÉLLO"...), from: \.other, in: tx).ids() == [0, 1])
      #expect(try words.load(.value(nil), from: \.other, in: tx).ids() == [2])
      #expect(try words.load(.value(Compound("HELLO", 0)), from: \.both, in: tx).ids() == [0])
      #expect(try words.load(.prefix("HELLO"), from: \.both, in: tx).ids() == [0])
      #expect(try words.load(.range(.beginning(with: "HELLO"..."ZOE")), from: \.both, in: tx).ids() == [0, 1])
      // Only the first part of this index is folded.
      #expect(try words.load(.value(Compound(Descending("HELLO"), "Hello")), from: \.reversed, in: tx).ids() == [0])
      #expect(try words.load(.value(Compound(Descending("HELLO"), "HELLO")), from: \.reversed, in: tx).ids() == [])
    }
  }
}

extension StoreCursor where Element == FoldedTests.Word {
  /// Returns the identifiers of all instances.
  fileprivate func ids() throws -> [Int] { try Array(self).map(\.id) }
}
