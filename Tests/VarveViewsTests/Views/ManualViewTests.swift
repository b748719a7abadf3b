import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of views whose order the program gives.
struct ManualViewTests {
  private let site: StorageSite
  private let database: Database
  private let view: ExtensionHandle<ManualView<String>>

  init() throws {
    site = try StorageSite(.memory)
    database = try Database.open(try site.open(), path: "manual")
    view = try database.registerReady(ManualView<String>(of: ["books"]), as: "lists")
    try database.change { tx throws in
      for name in "abcdefghij" { try tx.add(Book(nil, 1, "\(name)")) }
      try tx.add(Book(nil, 1, "film"), in: "films")
    }
  }

  private func keys(_ names: String) throws -> [RowKey] { try names.map { try book("\($0)") } }

  private func change(_ body: (ManualViewTransaction<String>) throws -> Void) throws -> [String: String] {
    try database.change { tx throws in
      try body(tx[view])
      #expect(try tx[view].verify() == [])
    }
    return try lists()
  }

  private func lists() throws -> [String: String] {
    try database.look { tx throws in
      #expect(try tx[view].verify() == [])
      return try tx[view].shelves().mapValues { $0.joined() }
    }
  }

  @Test func `rows are appended and inserted by offset, before others, and by a comparison`() throws {
    #expect(try change { try $0.append(keys("abc"), to: "x") } == ["x": "abc"])
    #expect(try change { try $0.insert(keys("d"), at: 0, in: "x") } == ["x": "dabc"])
    #expect(try change { try $0.insert(keys("ef"), at: 4, in: "x") } == ["x": "dabcef"])
    #expect(try change { try $0.insert(keys("gh"), before: book("b"), in: "x") } == ["x": "daghbcef"])
    #expect(try change { try $0.insert(keys("i"), before: nil, in: "x") } == ["x": "daghbcefi"])
    #expect(try change { view in for name in "gacbd" { try view.remove(book("\(name)")) } } == ["x": "hefi"])
    let sorted = try change { view throws in
      for key in try keys("dbcag") {
        try view.insert(key, in: "y") { try $0.key(as: String.self) < $1.key(as: String.self) }
      }
    }
    #expect(sorted == ["x": "hefi", "y": "abcdg"])
  }

  @Test func `a row that does not exist, or is in the view, is left out`() throws {
    _ = try change { view throws in
      #expect(try view.append(keys("aab?"), to: "x") == 2)
      #expect(try view.append(keys("bc"), to: "y") == 1)
      #expect(try !view.append(book("a"), to: "y"))
      #expect(try view.insert(keys("abc"), at: 0, in: "x") == 0)
      #expect(try view.remove(keys("j?")) == 0 && !view.remove(book("j")))
      #expect(try view.move(keys("j?"), before: nil, in: "x") == 0 && !view.move(book("j"), to: 0, in: "x"))
      #expect(try !view.insert(book("?"), in: "x") { _, _ in true })
      #expect(try view.append([], to: "z") == 0)
    }
    #expect(try lists() == ["x": "ab", "y": "c"])
  }

  @Test func `places that do not exist are refused, and nothing has changed`() throws {
    _ = try change { try $0.append(keys("abc"), to: "x") }
    func code(_ body: (ManualViewTransaction<String>) throws -> Void) -> DatabaseError.Code? {
      errorCode { try database.change { tx in try body(tx[view]) } }
    }
    for offset in [-1, 4, Int.max, Int.min] {
      #expect(code { try $0.insert(keys("d"), at: offset, in: "x") } == .invalidArgument)
    }
    #expect(code { try $0.insert(keys("d"), at: 1, in: "y") } == .invalidArgument)
    #expect(code { try $0.move(book("a"), to: 3, in: "x") } == .invalidArgument)
    #expect(code { try $0.insert(keys("d"), before: book("e"), in: "x") } == .invalidArgument)
    #expect(code { try $0.insert(keys("d"), before: book("a"), in: "y") } == .invalidArgument)
    #expect(code { try $0.append(book("film", in: "films"), to: "x") } == .invalidArgument)
    #expect(code { try $0.append(book("a"), to: String(repeating: "x", count: 70_000)) } == .keyTooLong)
    #expect(errorCode { try database.look { tx in _ = try tx[view].append(book("d"), to: "x") } } == .readOnly)
    #expect(try lists() == ["x": "abc"])
    // A refused move is undone as a whole, also if the transaction continues.
    let after = try change { view throws in
      #expect(errorCode { try view.move(book("a"), to: 7, in: "x") } == .invalidArgument)
      #expect(errorCode { try view.move(keys("ab"), before: book("j"), in: "x") } == .invalidArgument)
    }
    #expect(after == ["x": "abc"])
  }

  @Test func `rows are moved within a group and to others, together and in the given order`() throws {
    _ = try change { try $0.append(keys("abcdef"), to: "x") }
    #expect(try change { try $0.move(keys("ea"), before: book("c"), in: "x") } == ["x": "beacdf"])
    #expect(try change { try $0.move(keys("ba"), before: book("b"), in: "x") } == ["x": "baecdf"])
    #expect(try change { try $0.move(keys("ec"), before: nil, in: "x") } == ["x": "badfec"])
    #expect(try change { try $0.move(keys("dfec"), before: book("d"), in: "x") } == ["x": "badfec"])
    #expect(try change { try $0.move(keys("fb"), before: nil, in: "y") } == ["x": "adec", "y": "fb"])
    #expect(try change { try $0.move(keys("a"), before: book("b"), in: "y") } == ["x": "dec", "y": "fab"])
    #expect(try change { try $0.move(book("d"), to: 2, in: "x") } == ["x": "ecd", "y": "fab"])
    #expect(try change { try $0.move(book("d"), to: 0, in: "x") } == ["x": "dec", "y": "fab"])
    #expect(try change { try $0.move(book("f"), to: 0, in: "z") } == ["x": "dec", "y": "ab", "z": "f"])
  }

  @Test func `rows are removed by key, by offset, by group, and when they go`() throws {
    _ = try change { view throws in
      try view.append(keys("abcdef"), to: "x")
      try view.append(keys("ghi"), to: "y")
    }
    _ = try change { view throws in
      #expect(try view.remove(keys("bd")) == 2)
      #expect(try view.remove(at: 1, in: "x")?.key(as: String.self) == "c")
      for offset in [-1, 3, Int.max, Int.min] { #expect(try view.remove(at: offset, in: "x") == nil) }
    }
    #expect(try lists() == ["x": "aef", "y": "ghi"])
    let emptied = try change { view throws in
      #expect(try view.removeAll(in: "y") == 3)
      #expect(try view.removeAll(in: "z") == 0)
    }
    #expect(emptied == ["x": "aef"])
    try database.change { tx in try tx.remove(key: "e", in: "books") }
    #expect(try lists() == ["x": "af"])
    // A row that is set again is not in the view.
    try database.change { tx throws in
      try tx.remove(key: "a", in: "books")
      try tx.add(Book(nil, 1, "a"))
    }
    #expect(try lists() == ["x": "f"])
    try database.change { tx in try tx.removeAll(in: "books") }
    #expect(try lists() == [:])
  }

  @Test func `each change of a place touches the row, and renumbering touches none`() throws {
    let rows = try keys("abc")
    let connection = database.connection()
    _ = try connection.advance()
    func touched(_ body: (ManualViewTransaction<String>) throws -> Void) throws -> [String] {
      try database.change { tx in try body(tx[view]) }
      return try connection.advance().flatMap { event -> [String] in
        guard case .changes(let changes) = event else { return ["?"] }
        return try changes.keys(in: "books").map { try $0.key(as: String.self) }
      }
    }
    #expect(try touched { try $0.append(rows, to: "x") } == ["a", "b", "c"])
    #expect(try touched { try $0.move([rows[2]], before: rows[0], in: "x") } == ["c"])
    #expect(try touched { try $0.remove(rows[1]) } == ["b"])
    #expect(try touched { try $0.append(rows, to: "x") } == ["b"])
    #expect(try touched { try $0.append(rows, to: "x") } == [])
    // The rows between which others are inserted again and again are numbered again.
    for number in 0..<60 { try database.change { tx in try tx.add(Book(nil, 1, "n\(number)")) } }
    _ = try connection.advance()
    for number in 0..<60 {
      #expect(try touched { try $0.insert([book("n\(number)")], before: book("b"), in: "x") } == ["n\(number)"])
    }
    #expect(try database.look { tx in try tx[view].titles("x") } == ["c", "a"] + (0..<60).map { "n\($0)" } + ["b"])

  }

  // MARK: - Positions

  @Test func `any number of rows is inserted at one place`() throws {
    try database.change { tx throws in
      let view = try tx[view]
      try view.append(keys("abc"), to: "x")
      for number in 0..<300 {
        let name = "n\(number)"
        try tx.add(Book(nil, 1, name))
        try view.insert([book(name)], before: book("b"), in: "x")
      }
      #expect(try view.titles("x") == ["a"] + (0..<300).map { "n\($0)" } + ["b", "c"])
      #expect(try view.verify() == [])
    }
    try database.change { tx throws in
      let view = try tx[view]
      for number in 0..<300 { try tx.add(Book(nil, 1, "m\(number)")) }
      try view.insert((0..<300).map { try book("m\($0)") }, at: 1, in: "x")
      #expect(try view.row(in: "x", at: 200)?.key(as: String.self) == "m199")
      #expect(try view.verify() == [])
    }
  }

  @Test func `positions lie strictly between their neighbors, or there are none`() {
    var random = SeededRandom(seed: 7)
    let (low, high) = ViewPosition.limits
    for _ in 0..<20_000 {
      let count = 1 + random.below(5)
      let lower: UInt64? = random.oneIn(3) ? nil : low + 1 + random.next() % (high - low - 1)
      var upper: UInt64? = random.oneIn(3) ? nil : low + 1 + random.next() % (high - low - 1)
      if let lower, upper != nil { upper = min(high - 1, lower + 1 + random.next() % 12) }
      if let lower, let upper, upper <= lower { continue }
      guard let positions = ViewPosition.positions(count, after: lower, before: upper) else {
        let room = (upper ?? high) - (lower ?? low)
        #expect(room <= UInt64(count) + (lower == nil || upper == nil ? 1 : 0), "\(lower ?? 0) \(upper ?? 0) \(count)")
        continue
      }
      #expect(positions.count == count)
      let all = [lower ?? low] + positions + [upper ?? high]
      #expect(zip(all, all.dropFirst()).allSatisfy { $0 < $1 }, "\(all)")
    }
    #expect(ViewPosition.positions(1, after: nil, before: nil) == [ViewPosition.middle])
    #expect(ViewPosition.positions(0, after: 5, before: 6) == [])
    #expect(ViewPosition.positions(1, after: high - 1, before: nil) == nil)
    #expect(ViewPosition.positions(1, after: nil, before: low + 1) == nil)
  }

  @Test func `a group whose end has no position left is numbered again`() throws {
    try database.change { tx throws in
      let view = try tx[view]
      let group = try "x".encoded()
      let last = ViewPosition.limits.upper - 1
      for (name, position) in [("a", last - 1), ("b", last)] {
        let bytes = try #require(try view.content.rowBytes(book(name)))
        try view.content.enter(bytes, at: .placed(ViewContent<String>.entry(group, position)))
      }
      try view.append(keys("cde"), to: "x")
      try view.insert(keys("fgh"), at: 0, in: "x")
      #expect(try view.titles("x").joined() == "fghabcde")
      #expect(try view.verify() == [])
    }
  }

  // MARK: - Over time

  @Test func `the view stays, catches up, and is swept for rows that went unnoticed`() throws {
    _ = try change { try $0.append(keys("abcdef"), to: "x") }
    try database.close()
    var other = try Database.open(try site.open(), path: "manual")
    try other.change { tx throws in
      try tx.remove(key: "b", in: "books")
      try tx.remove(key: "c", in: "books")
      try tx.add(Book(nil, 2, "c"), Book(nil, 2, "d"))
    }
    var handle = try other.registerReady(ManualView<String>(of: ["books"]), as: "lists")
    try other.look { tx throws in
      // The row c exists, and whether it went in between is not known any more.
      #expect(try tx[handle].titles("x").filter { $0 != "c" } == ["a", "d", "e", "f"])
      #expect(try tx[handle].verify() == [])
    }
    try other.close()
    // The feed has a gap.
    var options = DatabaseOptions()
    options.feed = nil
    other = try Database.open(try site.open(), path: "manual", options: options)
    try other.change { tx throws in
      try tx.remove(key: "d", in: "books")
      try tx.removeAll(in: "films")
    }
    try other.close()
    other = try Database.open(try site.open(), path: "manual")
    handle = try other.registerReady(ManualView<String>(of: ["books"]), as: "lists")
    try other.look { tx throws in
      #expect(try tx[handle].titles("x").filter { $0 != "c" } == ["a", "e", "f"])
      #expect(try tx[handle].verify() == [])
    }
    try other.close()
  }

  @Test func `a sweep makes what is left of damaged entries consistent`() throws {
    _ = try change { view throws in
      try view.append(keys("abcd"), to: "x")
      try view.append(keys("efg"), to: "y")
    }
    let after = try change { view throws in
      let content = view.content
      func entry(_ name: String) throws -> ViewEntry { try #require(try content.entry(of: book(name))) }
      func bytes(_ name: String) throws -> [UInt8] { try #require(try content.rowBytes(book(name))) }
      // An entry is lost, a place is lost, a place is damaged, and two rows are at one place.
      try content.rows.remove(entry("a").key)
      try content.places.delete(bytes("b"))
      try content.rows.remove(entry("e").key)
      try content.places.put(bytes("e"), [9, 9])
      let other = try entry("f")
      try content.rows.remove(entry("g").key)
      try content.places.put(bytes("g"), other.place)
      #expect(try view.verify().count >= 4)
      try content.sweep()
      #expect(try view.verify() == [])
    }
    #expect(after == ["x": "abcd", "y": "f"])
  }

  @Test func `an undone savepoint brings back the places`() throws {
    struct Undone: Error {}
    _ = try change { try $0.append(keys("abc"), to: "x") }
    try database.change { tx throws in
      try? tx.savepoint {
        try tx[view].move(keys("c"), before: book("a"), in: "x")
        try tx[view].append(keys("d"), to: "y")
        throw Undone()
      }
      try tx[view].append(keys("e"), to: "x")
    }
    #expect(try lists() == ["x": "abce"])
  }

  @Test func `a view of all collections has rows of any, and can't be replaced at run time`() throws {
    let all = try database.registerReady(ManualView<Int>(), as: "all")
    try database.change { tx throws in
      try tx[all].append([book("a"), book("film", in: "films")], to: 1)
    }
    #expect(try database.look { tx in try tx[all].rows(in: 1, at: 0..<9).map(\.collection) } == ["books", "films"])
    try database.change { tx in try tx.removeAll() }
    #expect(try database.look { tx in try tx[all].isEmpty })
    #expect(
      errorCode { try database.change { tx in try tx.replaceDefinition(of: all, by: ManualView<Int>(of: ["books"])) } }
        == .invalidDefinition)
  }
}
