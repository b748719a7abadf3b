import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveInspection
import VarveViews

/// Tests of damage to what views and counted indexes keep: it is found, named, and repaired where it can be.
struct ViewDamageTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  init() throws { try ViewFixture.make(database) }

  private func put(_ family: String, _ key: String, _ value: String) throws {
    try Tool.good(["put", database, key, value, "--hex", "--raw", "--family", family])
  }

  private func delete(_ family: String, _ key: String) throws {
    try Tool.good(["delete", database, key, "--hex", "--raw", "--family", family])
  }

  private func content() throws -> ViewFixture.Content {
    try ViewFixture.with(database) { try ViewFixture.Content($0) }
  }

  // MARK: - Counts

  /// What is done to the counts of a part.
  enum Damage: CaseIterable { case wrongCount, endlessValue, emptyValue, tooLarge, lostRun, lostFamily, strayKey }

  /// The counted parts: of a view whose rows can be placed again, of one that is data, and of an index.
  enum Counted: CaseIterable {
    case auto, manual, index
    var name: String {
      switch self {
      case .auto: "byAuthor"
      case .manual: "shelves"
      case .index: "varve.indexes.books"
      }
    }
    var part: String { self == .index ? "i.byTitle" : "rows" }
  }

  /// All kinds of damage to one part, and some to the others.
  static let damages: [(Counted, Damage)] =
    Damage.allCases.map { (.auto, $0) }
    + [(.manual, .wrongCount), (.manual, .lostFamily), (.index, .wrongCount), (.index, .lostRun)]

  @Test(arguments: damages)
  func `a wrong or damaged count is found, and made again without a rebuild`(counted: Counted, damage: Damage) throws {
    let before = try content()
    let records = try Tool.good(["dump", "catalog", database])
    let family = try ViewFixture.family(database, counted.name, counted.part + ".runs")
    let runs = try ViewFixture.entries(database, family)
    #expect(runs[0].key == "01" && runs.count == (counted == .manual ? 1 : 4), "\(runs)")
    let last = runs[runs.count - 1].key
    let counts = try runs.map { try #require(Int($0.value, radix: 16)) }
    #expect(counts.reduce(0, +) == (counted == .manual ? 30 : 300))
    switch damage {
    case .wrongCount: try put(family, last, "07")
    case .endlessValue: try put(family, last, "ffff")
    case .emptyValue: try put(family, last, "")
    case .tooLarge: try put(family, last, "ffffffffffffff7f")
    case .lostRun: try delete(family, runs[0].key)
    case .lostFamily: for run in runs { try delete(family, run.key) }
    case .strayKey: try put(family, "00ff", "01")
    }
    let found = try Tool.run(["verify", database])
    #expect(found.status == 1 && found.output.hasSuffix("1 fault found\n"), "\(found)")
    let place = "database: extension \"\(counted.name)\", part \"\(counted.part)\": "
    // The manual view has one run, so its loss is that of all counts.
    let text =
      switch damage {
      case .wrongCount: "counts 7 entries, and has \(counts[counts.count - 1])"
      case .endlessValue, .emptyValue, .tooLarge: "is damaged, and the run has \(counts[counts.count - 1]) entries"
      case .lostRun where counted != .manual: "counts 0 entries, and has \(counts[0])"
      case .lostRun, .lostFamily: "there are \(counted == .manual ? 30 : 300) entries, and no counts"
      case .strayKey: "the counts have the key 0x00ff, which is not that of a run"
      }
    #expect(found.output.hasPrefix(place) && found.output.contains(text), "\(found.output)")
    let json = try Tool.lines(Tool.run(["verify", database, "--json"]).output)
    #expect(json.count == 2 && json[0].contains("\"extension\":\"\(counted.name)\",") && json[1] == "{\"faults\":1}")
    try expectFound(counted)

    let repair = try Tool.good(["repair", database])
    #expect(
      repair.contains(
        "counted again: part \"\(counted.part)\" of extension \"\(counted.name)\", 1 wrong counts\n"), "\(repair)")
    #expect(repair.hasSuffix("nothing else to repair\n"))
    #expect(try Tool.good(["verify", database]) == "no damage found\n")
    #expect(try Tool.good(["repair", database]).hasSuffix("nothing to repair\n"))
    #expect(try Tool.good(["dump", "catalog", database]) == records, "nothing is marked to be built again")
    #expect(try content() == before)
  }

  /// The command of the part finds the difference, too.
  private func expectFound(_ counted: Counted) throws {
    let arguments =
      counted == .index ? ["indexes", database, "--verify"] : ["views", database, counted.name, "--verify"]
    let found = try Tool.run(arguments)
    #expect(found.status == 1 && found.output.contains("1 difference found"), "\(found)")
    let json = try Tool.lines(Tool.run(arguments + ["--json"]).output)
    #expect(json.count == 2 && json[0].contains(counted == .index ? "\"kind\":\"count\"" : "\"kind\":\"countDiffers\""))
  }

  @Test func `a flip of any bit of the counts is found or harmless, and a repair makes them right`() throws {
    let before = try content()
    let family = try ViewFixture.family(database, "byAuthor", "rows.runs")
    let runs = try ViewFixture.entries(database, family)
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    for _ in 0..<TestScale.count(8) {
      let run = runs[random.below(runs.count)]
      var bytes = try #require(Self.bytes(run.value))
      bytes[random.below(bytes.count)] ^= UInt8(1 << random.below(8))
      try put(family, run.key, RawBytes.hex(bytes))
      // The program either reads it or gets an error.
      try ViewFixture.with(database) { database in
        let count = Result { try database.read { tx in try tx[ViewFixture.byAuthor].count() } }
        if case .failure(let error) = count { #expect((error as? DatabaseError)?.code == .corruption, "seed \(seed)") }
      }
      #expect(try Tool.run(["verify", database]).status == 1, "seed \(seed)")
      #expect(try Tool.good(["repair", database]).contains("counted again: "), "seed \(seed)")
      #expect(try Tool.good(["views", database, "--verify"]).hasPrefix("no differences found"), "seed \(seed)")
    }
    #expect(try content() == before)
  }

  private static func bytes(_ hex: String) -> [UInt8]? {
    let digits = Array(hex.utf8)
    return stride(from: 0, to: digits.count, by: 2).map {
      UInt8(String(decoding: digits[$0..<($0 + 2)], as: UTF8.self), radix: 16) ?? 0
    }
  }

  @Test func `a rebuild of a counted index makes its counts with its entries`() throws {
    let family = try ViewFixture.family(database, "varve.indexes.books", "i.byTitle")
    let entries = try ViewFixture.entries(database, family)
    for entry in entries.prefix(40) { try delete(family, entry.key) }
    for run in try ViewFixture.entries(database, family + ".runs").dropFirst() { try delete(family + ".runs", run.key) }
    let rebuild = try Tool.good(["indexes", database, "--rebuild", "byTitle"])
    #expect(rebuild == "index \"byTitle\" of books: 300 entries, 40 added, 0 removed\n")
    #expect(try Tool.good(["indexes", database, "--verify"]).hasPrefix("no differences found: 1 index,"))
    #expect(try Tool.good(["verify", database]) == "no damage found\n")
    let list = try Tool.objects(["indexes", database, "--json"])
    #expect(list.map { $0["name"] as? String } == ["byTitle"], "the counts are not listed")
    #expect(list[0]["counted"] as? Bool == true && list[0]["entries"] as? Int == 300)
    #expect(try Tool.good(["indexes", database]).hasSuffix("  ready, counted\n"))
  }

  // MARK: - Places and entries

  /// What is done to the row 30, which both views have.
  enum Contradiction: CaseIterable { case lostEntry, lostPlace, otherEntry, damagedPlace, lostRow }

  @Test(arguments: ["byAuthor", "shelves"], Contradiction.allCases)
  func `a place without a row and a row without a place are found, and the program repairs them`(
    name: String, contradiction: Contradiction
  ) throws {
    let before = try content()
    let rows = try ViewFixture.family(database, name, "rows")
    let places = try ViewFixture.family(database, name, "places")
    let row = RawBytes.hex([0, 0, 0, 1] + (try 30.encoded()))
    let entry = try #require(try ViewFixture.entries(database, rows).first { $0.value == row }, "\(row)")
    switch contradiction {
    case .lostEntry: try delete(rows, entry.key)
    case .lostPlace: try delete(places, row)
    case .otherEntry:
      let other = try #require(try ViewFixture.entries(database, rows).first { $0.value != row })
      try put(rows, entry.key, other.value)
    case .damagedPlace: try put(places, row, "ff")
    case .lostRow: try delete("objects", row)
    }
    let found = try Tool.run(["views", database, name, "--verify"])
    #expect(found.status == 1 && found.output.contains(" found: 1 view,"), "\(found)")
    let text =
      switch contradiction {
      case .lostEntry: "the row books/30: no group has it at its place"
      case .lostPlace: "the row books/30: a group has it at a place that is not its own"
      case .otherEntry: "a group has it at a place that is not its own"
      case .damagedPlace: "the row books/30: its place can't be read"
      case .lostRow: "the row books/30: it is in the view, and does not exist"
      }
    #expect(found.output.contains("view \"\(name)\": ") && found.output.contains(text), "\(found.output)")
    let json = try Tool.objects(["views", database, "--verify", "--json", "--limit", "0"], status: 1)
    #expect(json.count == 1 && (json[0]["differences"] as? Int ?? 0) >= 1)

    // An entry without its count is a wrong count as well.
    try Tool.good(["repair", database])
    #expect(try Tool.good(["views", database, name, "--rebuild"]).contains("makes it again when it opens"))
    let after = try content()
    let review = try Tool.good(["views", database, name, "--verify"])
    #expect(review.hasPrefix("no differences found: 1 view,"), "\(review)")
    #expect(try Tool.good(["verify", database]) == "no damage found\n")
    // Nothing says any more where the program had put a row whose entry has become that of another.
    if contradiction == .lostRow || (contradiction == .otherEntry && name == "shelves") {
      let key = try ViewFixture.key(30)
      let groups = name == "shelves" ? after.shelves : after.byAuthor
      #expect(!groups.values.contains { $0.contains(key) })
      let all = name == "shelves" ? before.shelves : before.byAuthor
      #expect(groups == all.mapValues { $0.filter { $0 != key } })
    } else {
      #expect(after == before)
    }
  }

  @Test func `a damaged entry of a view is reported, and the others are listed`() throws {
    let rows = try ViewFixture.family(database, "byAuthor", "rows")
    try put(rows, "1160", "00")
    try put(rows, "11617574686f7220300001", "00000009")
    let groups = try Tool.run(["views", database, "byAuthor"])
    #expect(groups.status == 1 && groups.errors.contains("can't be read as a row of a group"), "\(groups)")
    #expect(groups.output.contains("\"author 1\"\t100\n"))
    let list = try Tool.run(["views", database, "byAuthor", "--group", "author 0"])
    #expect(list.status == 1 && Tool.lines(list.output).count == 100, "\(list)")
    #expect(try Tool.run(["views", database, "--verify"]).status == 1)
  }

  @Test func `an unreadable table is reported as damage, and never leads to a wrong result`() throws {
    try Tool.good(["compact", database])
    let tables = try FileManager.default.contentsOfDirectory(atPath: database).filter { $0.hasSuffix(".sst") }
    var found: [Int32: Int] = [:]
    for table in tables {
      let copy = directory.path + "/copy-\(table)"
      try FileManager.default.copyItem(atPath: database, toPath: copy)
      var bytes = try Data(contentsOf: URL(fileURLWithPath: copy + "/" + table))
      bytes[20] ^= 0x55
      try bytes.write(to: URL(fileURLWithPath: copy + "/" + table))
      let result = try Tool.run(["views", copy, "--verify"])
      found[result.status, default: 0] += 1
      #expect(result.status == 1 || result.status == 3 || result.output.hasPrefix("no differences found"), "\(result)")
      #expect([0, 1, 3].contains(try Tool.run(["views", copy, "byAuthor", "--group", "a"]).status))
      #expect(try Tool.run(["verify", copy]).status == 1)
      // After a repair, the program has right views of what is left.
      #expect([0, 1].contains(try Tool.run(["repair", copy]).status))
      try ViewFixture.with(copy) { _ in }
      let after = try Tool.good(["views", copy, "--verify"])
      #expect(after.hasPrefix("no differences found"), "\(table): \(after)")
      #expect(try Tool.good(["verify", copy]) == "no damage found\n")
      try FileManager.default.removeItem(atPath: copy)
    }
    #expect((found[1] ?? 0) >= 4, "\(found)")
  }
}

extension Tool {
  /// Returns the objects that a command printed that ends with a status.
  fileprivate static func objects(_ arguments: [String], status: Int32) throws -> [[String: Any]] {
    let result = try run(arguments)
    #expect(result.status == status, "\(result)")
    return try lines(result.output).map { line in
      try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
  }
}
