import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve
@testable import VarveInspection

/// Tests of the feed of changes, page by page, in both directions.
struct InspectedFeedTests {
  /// Makes commits of all kinds, and returns what the feed has of each.
  private static func fill(_ database: Database, _ numbers: Range<Int>) throws -> [String] {
    var texts: [String] = []
    for number in numbers {
      try database.write(label: "c\(number)") { tx in
        try tx.set(ChangedNote(""), key: "k\(number)", in: "notes")
        if number % 3 == 1 { try tx.set(number, key: number, in: "numbers") }
        if number % 5 == 4 { try tx.remove(key: "k\(number - 1)", in: "notes") }
      }
      texts.append("c\(number)")
    }
    return texts
  }

  private static func labels(_ page: InspectedPage<InspectedCommit>) throws -> [String] {
    try page.elements.map { try $0.changes().label ?? "" }
  }

  private static func whole(
    _ inspector: DatabaseInspector, isReverse: Bool, _ size: Int
  ) throws -> [String] {
    var texts: [String] = []
    var position: InspectedPosition?
    repeat {
      let page =
        isReverse
        ? try inspector.feed(before: try sent(position), limit: size)
        : try inspector.feed(after: try sent(position), limit: size)
      #expect(page.elements.count == size || page.next == nil)
      texts += try labels(page)
      position = page.next
    } while position != nil && texts.count < 1_000
    return texts
  }

  @Test(
    "pages together are the whole feed, from the newest commit and from the oldest", arguments: InspectedKind.allCases)
  func pages(_ kind: InspectedKind) throws {
    let site = try InspectedSite(kind, DatabaseDefinition())
    let empty = try site.inspector().feed(limit: 3)
    #expect(empty.elements.isEmpty && empty.next == nil)
    let texts = try Self.fill(site.database, 0..<25)
    let inspector = try site.inspector()
    for size in [1, 4, 25, 26, .max] {
      #expect(try Self.whole(inspector, isReverse: true, size) == texts.reversed(), "\(size)")
      #expect(try Self.whole(inspector, isReverse: false, size) == texts, "\(size)")
    }
    #expect(try inspector.feedBeginning == .zero)
    try site.end()
  }

  @Test(
    "commits between two pages change neither the older ones nor their positions", arguments: InspectedKind.allCases)
  func changes(_ kind: InspectedKind) throws {
    let site = try InspectedSite(kind, DatabaseDefinition())
    var texts = try Self.fill(site.database, 0..<9)
    var older: [String] = []
    var position: InspectedPosition?
    repeat {
      let page = try site.inspector().feed(before: position, limit: 2)
      older += try Self.labels(page)
      if position == nil { #expect(try page.elements[0].changes().changedCollections == ["notes"]) }
      position = page.next
      texts += try Self.fill(site.database, texts.count..<(texts.count + 2))
    } while position != nil
    #expect(older == texts.prefix(9).reversed())
    // Forward from a commit: what came since, up to the present.
    let first = try #require(try site.inspector().feed(after: nil, limit: 4).next)
    let rest = try site.inspector().feed(after: try sent(first), limit: .max)
    #expect(try Self.labels(rest) == Array(texts[4...]) && rest.next == nil)
    #expect(try site.inspector().feed(after: rest.elements.last?.position, limit: 1).elements.isEmpty)
    #expect(try site.inspector().feed(before: first, limit: .max).elements.count == 3)
    try site.end()
  }

  @Test("a commit has what its transaction changed, in all its parts")
  func contents() throws {
    let site = try InspectedSite(.open, DatabaseDefinition())
    let count = ChangeLimits.partRows + 7
    try site.database.write(label: "many") { tx in
      for number in 0..<count { try tx.set(number, key: number, in: "numbers") }
    }
    try site.database.write(label: "two") { tx in
      try tx.setCustomObject(["a": 1])
      try tx.remove(key: 3, in: "numbers")
      try tx.set(ChangedNote("x"), key: "x", in: "gone")
    }
    _ = try site.database.dropCollection("gone")
    let page = try site.inspector().feed(limit: .max)
    let two = try #require(try page.elements.map { try $0.changes() }.first { $0.label == "two" })
    #expect(two.changedCollections == ["gone", "numbers"], "the feed speaks of collections that were dropped since")
    #expect(two.removedKeys(in: "numbers").map(\.text) == ["3"])
    #expect(two.insertedKeys(in: "gone").map(\.text) == ["\"x\""])
    #expect(try two.customObject(as: [String: Int].self) == ["a": 1])
    let many = try #require(page.elements.last).changes()
    #expect(many.label == "many" && many.insertedKeys(in: "numbers").count == count)
    #expect(many.version == page.elements.last?.version)
    #expect(page.elements.map(\.version) == page.elements.map(\.version).sorted(by: >))
    #expect(try site.inspector().feed(before: page.elements.last?.position, limit: 1).elements.isEmpty)
    try site.end()
  }

  @Test("an entry that can't be read is an error of its commit, and the others are shown")
  func damage() throws {
    let site = try InspectedSite(.open, DatabaseDefinition())
    let texts = try Self.fill(site.database, 0..<5)
    let family = site.database.core.catalog.families.feed
    let page = try site.inspector().feed(limit: .max)
    let (damaged, headless) = (page.elements[1].version, page.elements[3].version)
    let key = { (version: CommitVersion, part: UInt32) in BigEndian.bytes(version.number) + BigEndian.bytes(part) }
    var batch = StorageBatch()
    batch.put(key(damaged, 0), [1, 99], in: family)
    let bytes = try #require(try site.database.core.backend.snapshot().value(of: key(headless, 0), in: family))
    batch.delete(key(headless, 0), in: family)
    batch.put(key(headless, 1), bytes, in: family)
    // Keys of no commit: one that is too short, and one without a part.
    batch.put([0, 1], [], in: family)
    batch.put(BigEndian.bytes(page.elements[4].version.number), [], in: family)
    try site.database.core.backend.commit(batch, check: nil, durability: .process).wait()
    for isReverse in [true, false] {
      var found: [String] = []
      var position: InspectedPosition?
      var count = 0
      repeat {
        let inspector = try site.inspector()
        let page =
          isReverse ? try inspector.feed(before: position, limit: 1) : try inspector.feed(after: position, limit: 1)
        for commit in page.elements {
          do { found.append(try commit.changes().label ?? "") } catch let error as DatabaseError {
            #expect(error.code == .corruption)
            found.append("damaged")
          }
        }
        position = page.next
        count += 1
      } while position != nil && count < 20
      #expect(found.filter { $0 != "damaged" } == (isReverse ? ["c4", "c2"] : ["c2", "c4"]), "\(found)")
      #expect(count < 20)
    }
    #expect(texts.count == 5)
    try site.end()
  }

  @Test("a feed that begins again says where, and a database without a feed that it has none")
  func beginning() throws {
    let site = try InspectedSite(.open, DatabaseDefinition())
    _ = try Self.fill(site.database, 0..<4)
    let old = try #require(try site.inspector().feed(limit: 2).next)
    try site.database.renameCollection("notes", to: "letters")
    let renamed = try site.inspector()
    #expect(try #require(try renamed.feedBeginning) > .zero)
    #expect(try renamed.feed(before: old, limit: 5).elements.isEmpty)
    try site.database.write(label: "new") { tx in try tx.set(1, key: 1, in: "numbers") }
    #expect(try Self.labels(try site.inspector().feed(after: old, limit: 5)) == ["new"])
    try site.end()

    var options = DatabaseOptions()
    options.feed = nil
    let without = try InspectedSite(.open, DatabaseDefinition(), options)
    _ = try Self.fill(without.database, 0..<3)
    #expect(try without.inspector().feedBeginning == nil)
    #expect(try without.inspector().feed(limit: 5).elements.isEmpty)
    try without.end()
  }
}
