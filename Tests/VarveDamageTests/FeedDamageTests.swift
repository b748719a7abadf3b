import EngineTestSupport
import Foundation
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests that unreadable parts of the feed are gaps, and do not end it.
struct FeedDamageTests {
  private struct Written {
    var texts: [String] = []
    var labels: [String] = []
    var versions: [CommitVersion] = []

    /// Returns the texts that are received if a gap replaces each of these ranges, which are in ascending order.
    func texts(withGapsAt gaps: ClosedRange<Int>...) -> [String] {
      var heard = texts
      for gap in gaps.reversed() { heard.replaceSubrange(gap, with: ["gap"]) }
      return heard
    }
  }

  private static func fill(_ database: Database, _ numbers: Range<Int>) throws -> Written {
    var written = Written()
    for number in numbers {
      let label = UUID().uuidString
      try database.change(label) { try $0.set(ChangedNote(""), key: "k\(number)", in: "notes") }
      written.texts.append("+k\(number)")
      written.labels.append(label)
      written.versions.append(try database.lastVersion())
    }
    return written
  }

  private static func overwrite(_ version: CommitVersion, _ value: [UInt8], in database: Database) throws {
    var batch = StorageBatch()
    let key = BigEndian.bytes(version.number) + BigEndian.bytes(UInt32(0))
    batch.put(key, value, in: database.core.catalog.families.feed)
    _ = try database.core.backend.commit(batch, check: nil, durability: .process)
  }

  private static func gaps(_ events: [ChangeEvent]) -> [[CommitVersion]] {
    events.compactMap { event in
      if case .gap(let from, let to) = event { return [from, to] }
      return nil
    }
  }

  @Test func `an invalid entry is a gap at its commit, for resumed subscriptions and for reads`() async throws {
    let database = try await Database.inMemory()
    let written = try Self.fill(database, 0..<600)
    try Self.overwrite(written.versions[300], [1, 0xFF], in: database)
    let events = try database.feedEvents(limit: 1_000)
    let expected = written.texts(withGapsAt: 300...300)
    #expect(events.map(\.text) == expected)
    #expect(Self.gaps(events) == [[written.versions[299], written.versions[300]]])
    var iterator = database.changes(after: .zero, buffer: 2).makeAsyncIterator()
    #expect(try await iterator.next(600) == expected)
    try database.put("live")
    #expect(try await iterator.next(1) == ["+live"])
    // No event after the gap may be missing.
    let later = try database.feedEvents(after: written.versions[300], limit: 2)
    #expect(later.map(\.text) == Array(written.texts[301...302]))
    // If the limit ends at the damage, the gap belongs to the next page.
    #expect(try database.feedEvents(limit: 300).map(\.text) == Array(written.texts[..<300]))
    #expect(try database.feedEvents(after: written.versions[299], limit: 1).map(\.text) == ["gap"])
  }

  @Test func `several damaged entries are several gaps, and one at the end reaches to the present`() throws {
    let database = try Database.inMemory()
    let written = try Self.fill(database, 0..<20)
    for number in [0, 7, 8, 19] { try Self.overwrite(written.versions[number], [9, 9], in: database) }
    // Entries of an unknown version are not corrupt.
    #expect(throws: DatabaseError.self) { try database.feedEvents() }
    for number in [0, 7, 8, 19] { try Self.overwrite(written.versions[number], [], in: database) }
    let events = try database.feedEvents()
    let versions = written.versions
    #expect(events.map(\.text) == written.texts(withGapsAt: 0...0, 7...8, 19...19))
    #expect(Self.gaps(events).dropLast() == [[.zero, versions[0]], [versions[6], versions[8]]])
    let last = try #require(Self.gaps(events).last)
    #expect(try last[0] == versions[18] && last[1] >= versions[19] && last[1] <= database.lastVersion())
  }

  @Test func `an invalid record makes everything a gap, and new commits are received`() async throws {
    let database = try await Database.inMemory()
    _ = try Self.fill(database, 0..<5)
    var batch = StorageBatch()
    batch.put(FeedKey.record, [1], in: database.core.catalog.families.feed)
    _ = try database.core.backend.commit(batch, check: nil, durability: .process)
    var iterator = database.changes(after: .zero).makeAsyncIterator()
    #expect(try await iterator.next(1) == ["gap"])
    try database.put("live")
    #expect(try await iterator.next(1) == ["+live"])
    let events = try database.feedEvents()
    #expect(Self.gaps(events) == [[.zero, try database.lastVersion()]])
  }

  // MARK: - A block of a table

  /// Damages the block of a table that contains a text.
  private static func damage(_ text: String, in directory: String) throws {
    let text = Array(text.utf8)
    for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
      let file = URL(fileURLWithPath: directory + "/" + name)
      var bytes = Array(try Data(contentsOf: file))
      guard name.hasSuffix(".sst"), let location = bytes.firstRange(of: text) else { continue }
      for index in location { bytes[index] ^= 0xFF }
      try Data(bytes).write(to: file)
      return
    }
    throw Unexpected(what: "no table has the text")
  }

  @Test func `a damaged block is a gap, even after a restart and for followers`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var database = try Self.open(path)
    let written = try Self.fill(database, 0..<2_000)
    try #require(database.core.backend as? EngineBackend).engine.flush()
    try database.put("last")
    try database.endNow()
    try Self.damage(written.labels[1_000], in: path)
    database = try Self.open(path)
    let events = try database.feedEvents(limit: 3_000)
    let begin = try #require(events.firstIndex { $0.text == "gap" })
    let gap = try #require(Self.gaps(events).first)
    let end = try #require(written.versions.lastIndex { $0 <= gap[1] })
    // At most one block is lost, and its end is known.
    #expect(begin <= 1_000 && end >= 1_000 && end - begin < 200)
    #expect(gap[0] == written.versions[begin - 1])
    let expected = written.texts(withGapsAt: begin...end) + ["+last"]
    #expect(events.map(\.text) == expected)
    let follower = try Self.open(path, follows: true)
    var own = database.changes(after: written.versions[500]).makeAsyncIterator()
    var followed = follower.changes(after: written.versions[500]).makeAsyncIterator()
    #expect(try await own.next(expected.count - 501) == Array(expected[501...]))
    #expect(try await followed.next(expected.count - 501) == Array(expected[501...]))
    try database.put("live")
    #expect(try await own.next(1) == ["+live"])
    #expect(try await followed.next(1) == ["+live"])
    try follower.endNow()
    try database.endNow()
  }

  private static func open(_ path: String, follows: Bool = false) throws -> Database {
    var options = DatabaseOptions()
    options.follows = follows
    // The table is not compressed, so that a text can be found in its file.
    options.compression = .none
    return try Database.open(at: path, options: options)
  }
}
