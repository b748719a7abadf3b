import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the inbox of a connection: the commits that the connection has not yet advanced to.
struct ConnectionInboxTests {
  private static func changeSet(
    _ version: UInt64 = 1, rows: Int = 0, keySize: Int = 4, label: String? = nil
  ) -> ChangeSet {
    var changed = ChangeSet.Rows()
    for row in 0..<rows {
      let key = BigEndian.bytes(UInt32(row)) + [UInt8](repeating: 0, count: keySize - 4)
      changed.states.set(RowState(.inserted, before: nil), for: key)
    }
    return ChangeSet(
      version: CommitVersion(version), time: 0, label: label, isEverythingCleared: false, isFromFeed: false,
      collections: rows == 0 ? [:] : ["rows": changed], custom: nil, extensions: ExtensionReports())
  }

  // MARK: - The bounds

  @Test func `256 change sets are kept, and with one more none`() {
    let inbox = ConnectionInbox()
    for version in 1...256 { inbox.add(Self.changeSet(UInt64(version), rows: 1)) }
    #expect(inbox.take()?.map(\.version.number) == Array(1...256))
    for version in 1...257 { inbox.add(Self.changeSet(UInt64(version), rows: 1)) }
    #expect(inbox.held == (0, 0))
    inbox.add(Self.changeSet(258))
    #expect(inbox.held.count == 0, "what comes after those that are lost is of no use")
    #expect(inbox.take() == nil)
    inbox.add(Self.changeSet(259))
    #expect(inbox.take()?.map(\.version.number) == [259])
  }

  @Test(arguments: [(rows: 100, keySize: 1_000), (rows: 10_000, keySize: 16)])
  func `4 MiB are kept, and not one change set more`(rows: Int, keySize: Int) throws {
    // Sizes differ by a few bytes, because an array's capacity is what the allocator returns.
    var sizes: [Int] = []
    let inbox = ConnectionInbox()
    while true {
      let next = Self.changeSet(UInt64(sizes.count + 1), rows: rows, keySize: keySize)
      if sizes.reduce(next.byteCount, +) > 4 << 20 { break }
      sizes.append(next.byteCount)
      inbox.add(next)
    }
    try #require(sizes.count > 1 && sizes.count < 256)
    #expect(inbox.held == (sizes.count, sizes.reduce(0, +)))
    inbox.add(Self.changeSet(99, rows: rows, keySize: keySize))
    #expect(inbox.held == (0, 0))
    #expect(inbox.take() == nil)
  }

  // MARK: - Size accounting

  @Test(arguments: [1, 10, 1_000, 50_000], [4, 40, 900])
  func `the size of a change set includes its keys and their containers`(rows: Int, keySize: Int) {
    let counted = Self.changeSet(rows: rows, keySize: keySize).byteCount
    // A row takes its key, 10 bytes of entry, and 8 to 24 bytes of slots. Arrays grow by doubling.
    #expect(counted >= rows * (keySize + 10 + 8))
    #expect(counted <= 1_024 + rows * (2 * keySize + 2 * 10 + 24))
  }

  @Test func `a removed row counts, and so do the label and the object of a commit`() throws {
    var rows = ByteTable<RowState>()
    rows.set(RowState(.inserted, before: nil), for: [UInt8](repeating: 1, count: 1_000))
    rows.set(RowState(.inserted, before: nil), for: [2])
    let before = rows.byteCount
    rows.remove([UInt8](repeating: 1, count: 1_000))
    #expect(rows.byteCount == before, "its entry stays")
    let label = String(repeating: "a", count: 500)
    #expect(Self.changeSet(label: label).byteCount == Self.changeSet().byteCount + 500)

    let database = try Database.inMemory()
    let connection = database.connection()
    try connection.beginLongLivedRead()
    try database.write { tx in try tx.setCustomObject(String(repeating: "b", count: 5_000)) }
    #expect(try connection.advance().first?.changes?.byteCount ?? 0 > 5_000)
  }

  /// An extension that reports a text for each commit, of the size given by the last row.
  private struct Talker: DatabaseExtension {
    static let kind = "test.talker"
    typealias Changes = String
    var saysSize: Bool
    var configuration: ExtensionConfiguration { ExtensionConfiguration(version: "1") }
    func makeTransaction(_ context: ExtensionContext<Self>) -> TalkerTransaction { TalkerTransaction() }
    func byteCount(of changes: String) -> Int? { saysSize ? changes.utf8.count : nil }
  }

  private final class TalkerTransaction: ExtensionTransaction {
    typealias Definition = Talker
    private var size = 0
    func didChange(_ change: borrowing RowChange) throws { size = try change.row?.object(as: Int.self) ?? 0 }
    func takeChanges() -> String? { String(repeating: "c", count: size) }
  }

  @Test func `the changes of an extension count with the size it reports, or else as much as the rows`() throws {
    for saysSize in [true, false] {
      let database = try Database.inMemory()
      let connection = database.connection()
      func bytes(_ size: Int) throws -> Int {
        try connection.advance()
        try database.write { tx in for key in 0..<100 { try tx.set(size, key: key, in: "rows") } }
        return try #require(try connection.advance().first?.changes).byteCount
      }
      try connection.beginLongLivedRead()
      let alone = try bytes(1_000)
      let talker = try database.registerReady(Talker(saysSize: saysSize), as: "talker")
      for size in [20_000, 100_000] {
        // Arrays may have more capacity than requested, and more so as they grow.
        let expected = saysSize ? alone + size : 2 * alone
        #expect(abs(try bytes(size) - expected) <= alone * 3 / 4 && alone > 2_000 && alone < 15_000)
      }
      guard saysSize else { continue }
      // The sizes are 3 and 2 MiB, so the second one exceeds the limit.
      for size in [3 << 20, 2 << 20] { try database.write { tx in try tx.set(size, key: 1, in: "rows") } }
      let changes = try connection.advance().compactMap(\.changes)
      #expect(changes.count == 2)
      for changed in changes { if case .reload = changed.changes(of: talker) {} else { Issue.record("no reload") } }
    }
  }

  // MARK: - A connection

  @Test(arguments: [256, 257])
  func `advance has the changes of extensions for up to 256 commits, and past that only rows`(count: Int) throws {
    let database = try Database.inMemory()
    let probe = try database.registerReady(ChangingProbe(), as: "probe")
    let connection = database.connection()
    try connection.beginLongLivedRead()
    for key in 1...count { try database.write { tx in try tx.set(key, key: key, in: "rows") } }
    let events = try connection.advance()
    #expect(events.map(\.text) == (1...count).map { "+\($0)" })
    let said = events.compactMap(\.changes).map { "\($0.changes(of: probe))" }
    #expect(said == (1...count).map { count == 256 ? "exact(\"rows/\($0)\")" : "reload" })
    // The next change set is exact again.
    try database.write { tx in try tx.set(0, key: 0, in: "rows") }
    #expect(try connection.advance().compactMap(\.changes).map { "\($0.changes(of: probe))" } == ["exact(\"rows/0\")"])
  }

  @Test func `without a feed commits past the limit are a gap`() throws {
    var options = DatabaseOptions()
    options.feed = nil
    let database = try Database.inMemory(options: options)
    let connection = database.connection()
    try connection.beginLongLivedRead()
    let from = try #require(connection.pinnedVersion)
    for key in 1...257 { try database.write { tx in try tx.set(key, key: key, in: "rows") } }
    let events = try connection.advance()
    #expect(events.count == 1)
    guard case .gap(let first, let last)? = events.first else { return _ = Issue.record("\(events.map(\.text))") }
    #expect(first == from)
    #expect(last == connection.pinnedVersion)
  }

  @Test func `the cache is current however many commits there were`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("rows", ChangedNote.self, key: Int.self)
    }
    let database = try Database.inMemory(definition: definition)
    let connection = database.connection()
    func text() throws -> String? {
      try connection.read { tx in try tx.object(ChangedNote.self, key: 1, in: "rows")?.text }
    }
    for count in [1, 256, 257, 1_000] {
      for step in 1...count {
        try database.write { tx in try tx.set(ChangedNote("\(count) \(step)"), key: 1, in: "rows") }
      }
      #expect(try text() == "\(count) \(count)")
      #expect(connection.cachedCount == 1)
    }
  }
}
