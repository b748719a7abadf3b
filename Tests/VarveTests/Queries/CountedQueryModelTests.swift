import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Compares counted queries with arrays, over random changes, savepoints, definitions and restarts.
@Suite(.serialized) struct CountedQueryModelTests {
  @Test(arguments: TestScale.seed.map { [$0] } ?? (0..<UInt64(TestScale.count(3))).map { $0 })
  func `counts, offsets and sections are those of an array`(seed: UInt64) throws {
    var run = try CountedModelRun(seed)
    for _ in 0..<14 { try run.step() }
  }
}

private struct CountedModelRun {
  private let shared: SharedBackend
  private var database: Database
  private var tomes: Store<TomeFormat>
  private var random: SeededRandom
  private var rows: [Int: Tome] = [:]

  private struct Undone: Error {}

  init(_ seed: UInt64) throws {
    random = seededRandom("counted queries", seed)
    shared = try SharedBackend()
    database = try shared.open(DatabaseDefinition { TomeFormat.self })
    tomes = Store(in: database)
  }

  mutating func step() throws {
    switch random.below(10) {
    case 0: try reopen()
    case 1: try catchUp()
    case 2: try rebuild()
    default: try write()
    }
    let (tomes, rows) = (tomes, rows)
    var random = random
    try database.read { tx in try Self.check(tomes, rows, &random, tx) }
    self.random = random
  }

  private mutating func reopen() throws {
    try database.close()
    database = try shared.open(DatabaseDefinition { TomeFormat.self })
    tomes = Store(in: database)
    try warm(tomes)
  }

  /// Changes rows in a program that does not have the indexes.
  private mutating func catchUp() throws {
    try database.close()
    let bare = try shared.open(DatabaseDefinition())
    for _ in 0..<2 {
      let changes = (0..<random.below(12)).map { _ in (random.below(80), random.below(4) == 0 ? nil : tome()) }
      try bare.core.write(WriteTerms()) { tx in
        for (id, tome) in changes {
          if var tome {
            tome.id = id
            try tx.set(tome, key: id, in: "tomes")
            rows[id] = tome
          } else {
            try tx.remove(key: id, in: "tomes")
            rows[id] = nil
          }
        }
      }
    }
    try bare.close()
    database = try shared.open(DatabaseDefinition { TomeFormat.self })
    tomes = Store(in: database)
    try warm(tomes)
  }

  private mutating func rebuild() throws {
    let rebuilt: (Store<TomeFormat>) throws -> Void =
      switch random.below(3) {
      case 0: { try $0.rebuild(\.byAuthor) }
      case 1: { try $0.rebuild(\.direct) }
      default: { try $0.rebuild(\.tags) }
      }
    try rebuilt(tomes)
  }

  private mutating func write() throws {
    var (random, rows) = (random, rows)
    let tomes = tomes
    try database.write { tx throws in
      for _ in 0..<(1 + random.below(5)) {
        let before = rows
        let isUndone = random.oneIn(4)
        do {
          try tx.savepoint {
            for _ in 0..<random.below(15) { try Self.change(tomes, &rows, &random, tx) }
            if random.oneIn(3) { try Self.check(tomes, rows, &random, tx) }
            if isUndone { throw Undone() }
          }
        } catch is Undone { rows = before }
      }
      try Self.check(tomes, rows, &random, tx)
    }
    (self.random, self.rows) = (random, rows)
  }

  private mutating func tome() -> Tome { Self.tome(&random) }

  private static func tome(_ random: inout SeededRandom) -> Tome {
    Tome(
      id: random.below(80), author: ["", "a", "a\0", "ab", "é"][random.below(5)], title: "t\(random.below(4))",
      year: random.oneIn(4) ? nil : random.below(6) - 3, isRead: random.oneIn(2), shelf: random.below(3),
      tags: (0..<random.below(4)).map { _ in "y\(random.below(3))" }, text: "long text \(random.below(3))")
  }

  private static func change(
    _ tomes: Store<TomeFormat>, _ rows: inout [Int: Tome], _ random: inout SeededRandom, _ tx: WriteTransaction
  ) throws {
    switch random.below(12) {
    case 0..<2:
      let id = random.below(80)
      _ = try tomes.deleteIfPresent(id, in: tx)
      rows[id] = nil
    case 2 where random.oneIn(8):
      try tx.removeAll(in: "tomes")
      rows = [:]
    case 3..<5:
      guard let id = rows.keys.min(by: { ($0 &* 31) % 17 < ($1 &* 31) % 17 }) else { return }
      let other = tome(&random)
      try tomes.modify(id, in: tx) { ($0.title, $0.tags) = (other.title, other.tags) }
      rows[id]?.title = other.title
      rows[id]?.tags = other.tags
    default:
      let tome = tome(&random)
      try tomes.persist(tome, in: tx)
      rows[tome.id] = tome
    }
  }

  // MARK: - Comparing

  private static func check(
    _ tomes: Store<TomeFormat>, _ rows: [Int: Tome], _ random: inout SeededRandom, _ tx: ReadTransaction
  ) throws {
    let all = rows.values.sorted { $0.id < $1.id }
    func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
    func precedes(_ left: Tome, _ right: Tome) -> Bool {
      left.title == right.title ? left.id < right.id : ByteOrder.precedes(bytes(left.title), bytes(right.title))
    }
    let author = tome(&random).author
    let ofAuthor = all.filter { $0.author == author }.sorted(by: precedes)
    let query = tomes.query.filter { $0.author == author }
    try expectCounted(query.sorted(by: \.title), ofAuthor, in: tx, limit: 6)
    try expectCounted(query.sorted(by: \.title, descending: true), ofAuthor.reversed(), in: tx, limit: 6)
    let (low, high) = (random.below(6) - 3, random.below(6) - 3)
    let byYear = all.sorted { ($0.year ?? .min, $0.id) < ($1.year ?? .min, $1.id) }
    let years = tomes.query.filter { $0.year >= low && $0.year <= high }
    let within = byYear.filter { tome in tome.year.map { $0 >= low && $0 <= high } ?? false }
    try expectCounted(years.sorted(by: \.year), within, in: tx, limit: 6)
    try expectCounted(tomes.query.sorted(by: \.year, descending: true), byYear.reversed(), in: tx, limit: 6)
    try expectCounted(
      tomes.query.filter { $0.tags.contains("y1") }, all.filter { $0.tags.contains("y1") }, in: tx, limit: 6)
    let shelf = random.below(3)
    try expectCounted(tomes.query.filter { $0.shelf == shelf }, all.filter { $0.shelf == shelf }, in: tx, limit: 6)
    let unread = tomes.query.filter { $0.isRead == false }.sorted(by: \.title)
    try expectCounted(unread, all.filter { !$0.isRead }.sorted(by: precedes), in: tx, limit: 6)
    // Sections.
    let groups = Dictionary(grouping: all) { bytes($0.author) }.sorted { ByteOrder.precedes($0.key, $1.key) }
    let sectioned = tomes.query.sorted(by: \.title).sectioned(by: \.author)
    let sections = try sectioned.sections(in: tx)
    #expect(sections.map { bytes($0.value) } == groups.map(\.key))
    #expect(sections.map(\.count) == groups.map(\.value.count))
    for (group, found) in zip(groups, sections) {
      let ids = group.value.sorted(by: precedes).map(\.id)
      #expect(try sectioned.ids(of: found.value, at: 0..<100, in: tx) == ids)
      let offset = random.below(ids.count)
      let place = try sectioned.place(of: ids[offset], in: tx)
      #expect(place?.section == found.value && place?.offset == offset)
    }
    if tx is WriteTransaction { return }
    #expect(try tomes.indexDifferences(in: tx).isEmpty)
  }
}
