import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of indexes that are added, changed and removed between two starts of a program.
@Suite(.serialized) struct IndexLifeTests {
  private let shared: SharedBackend

  init() throws { shared = try SharedBackend() }

  private func fill(_ count: Int) throws {
    let database = try shared.open(DatabaseDefinition { BareVolumeFormat.self })
    try database.write { tx throws in
      let store = Store<BareVolumeFormat>(in: database)
      for id in 1...count {
        try store.persist(Volume(id: id, title: "title \(id % 10)", year: 1990 + id % 30, tags: ["t\(id % 3)"]), in: tx)
      }
    }
    try database.close()
  }

  private func open<Format: StoreFormat>(_ format: Format.Type) throws -> (Database, Store<Format>) {
    let database = try shared.open(DatabaseDefinition { format })
    return (database, Store(in: database))
  }

  @Test func `a new index has the rows from before, and those written during its build`() throws {
    try fill(3_000)
    let (database, volumes) = try open(VolumeFormat.self)
    try database.write { tx in try volumes.persist(Volume(id: 5_000, title: "title 1"), in: tx) }
    try database.write { tx in _ = try volumes.delete(1, in: tx) }
    try warm(volumes)
    try database.read { tx throws in
      #expect(try volumes.count(.value("title 1"), from: \.title, in: tx) == 300)
      #expect(try volumes.count(.all, from: \.tags, in: tx) == 2_999)
      #expect(try volumes.indexDifferences(in: tx).isEmpty)
    }
    try database.close()
  }

  @Test func `an index that changed, and one that was removed, leave others unchanged`() throws {
    try fill(100)
    for _ in 0..<2 {
      let (database, volumes) = try open(VolumeFormat.self)
      try warm(volumes)
      #expect(try database.read { tx in try volumes.count(.value("title 1"), from: \.title, in: tx) } == 10)
      #expect(try database.read { tx in try volumes.indexDifferences(in: tx) }.isEmpty)
      try database.close()
      let (again, others) = try open(OtherVolumeFormat.self)
      try warm(others)
      // The name refers to another field now.
      #expect(try again.read { tx in try others.count(.value(1_991), from: \.title, in: tx) } == 4)
      #expect(try again.read { tx in try others.indexDifferences(in: tx) }.isEmpty)
      try again.close()
    }
    // Without an index in the format, no family of one is left.
    let (database, _) = try open(BareVolumeFormat.self)
    #expect(try shared.families().filter { $0.name.hasPrefix("x.") }.isEmpty)
    try database.close()
  }

  @Test func `an observed query whose index is being built is read from the rows`() async throws {
    try fill(50)
    SlowVolumeFormat.gate.shut()
    let (database, slow) = try open(SlowVolumeFormat.self)
    defer { SlowVolumeFormat.gate.open() }
    let ones = slow.query.filter { $0.title == "title 1" }
    #expect(errorCode { _ = try database.core.read { tx in try ones.count(in: tx) } } == .notReady)
    var counts = ones.observeCount().makeAsyncIterator()
    #expect(try await counts.next() == 5)
    var changes = ones.changes().makeAsyncIterator()
    #expect(try await changes.next()?.ids.count == 5)
    var windows = ones.sorted(by: \.id).limit(2).changes().makeAsyncIterator()
    #expect(try await windows.next()?.ids == [1, 11])
    SlowVolumeFormat.gate.open()
    try await slow.warm()
    try await database.write { tx in _ = try slow.delete(1, in: tx) }
    #expect(try await counts.next() == 4)
    #expect(try await changes.next()?.removed == [1])
    #expect(try await windows.next()?.ids == [11, 21])
    try await database.close()
  }

  @Test
  func `an observed closure that uses an index being built runs again when that has all rows`() async throws {
    try fill(3_000)
    let (database, volumes) = try open(VolumeFormat.self)
    try warm(volumes)
    let name = IndexesName.name(for: VolumeFormat.collection)
    let registered = try #require(database.core.extensions.list[name])
    // The build stops between its first chunk, which creates the family of the entries, and the last one.
    let gate = Gate()
    gate.shut()
    defer { gate.open() }
    _ = registered.addWaiting { _ in gate.pass() }
    let index = try #require(registered.traits.parts.firstIndex { $0.name == "i.title" })
    try database.core.rebuild([index], of: name) { _ in }
    await gate.waitUntilHeld()
    var counts = database.observe { tx -> Int in
      do {
        return try volumes.count(.value("title 1"), from: \.title, in: tx)
      } catch let error as DatabaseError where error.code == .notReady { return -1 }
    }.makeAsyncIterator()
    #expect(try await counts.next() == -1)
    gate.open()
    while let found = try await counts.next() {
      if found == -1 { continue }
      #expect(found == 300)
      break
    }
    // From then on, only changes of rows that it reads wake the closure.
    try await volumes.warm()
    try await database.write { tx in _ = try volumes.delete(1, in: tx) }
    while let found = try await counts.next(), found != 299 { #expect(found == 300) }
    try await database.close()
  }

  @Test
  func `a cursor over an index that is rebuilt throws that its snapshot is too old`() throws {
    try fill(1_000)
    let (database, volumes) = try open(VolumeFormat.self)
    try warm(volumes)
    try database.core.read { tx throws in
      var cursor = try volumes.load(.all, from: \.title, in: tx)
      #expect(try cursor.next() != nil)
      try otherThread { try volumes.rebuild(\.title) }
      #expect(errorCode { while try cursor.next() != nil {} } == .snapshotTooOld)
    }
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `in a follower the other indexes answer while one is rebuilt`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let definition = DatabaseDefinition { SlowVolumeFormat.self }
    let writer = try Database.open(try site.open(), path: "writer", definition: definition)
    let slow = Store<SlowVolumeFormat>(in: writer)
    try writer.write { tx in
      try slow.persist(contentsOf: (1...50).map { Volume(id: $0, title: "title \($0 % 10)") }, in: tx)
    }
    try warm(slow)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", definition: definition, options: options)
    let followed = Store<SlowVolumeFormat>(in: follower)
    let before = try follower.core.read { tx throws in
      #expect(try followed.count(.value("title 1"), from: \.slow, in: tx) == 5)
      return tx.version
    }
    SlowVolumeFormat.gate.shut()
    defer { SlowVolumeFormat.gate.open() }
    // This is the first step of `rebuild`, before it waits.
    try writer.core.rebuild([0], of: IndexesName.name(for: "volumes")) { _ in }
    try follower.core.read { tx throws in
      #expect(tx.version > before)
      #expect(try followed.count(.value("title 1"), from: \.title, in: tx) == 5)
      #expect(errorCode { _ = try followed.count(.value("title 1"), from: \.slow, in: tx) } == .notReady)
    }
    SlowVolumeFormat.gate.open()
    try warm(slow)
    try follower.core.read { tx throws in #expect(try followed.count(.value("title 1"), from: \.slow, in: tx) == 5) }
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a part that is rebuilt gets a new family, and the old one is dropped`() throws {
    try fill(50)
    let (database, volumes) = try open(VolumeFormat.self)
    try warm(volumes)
    let before = try shared.families().filter { $0.name.hasPrefix("x.1.i.") }
    try volumes.rebuild(\.title)
    try warm(volumes)
    let after = try shared.families().filter { $0.name.hasPrefix("x.1.i.") }
    #expect(before.map(\.name).sorted() == after.map(\.name).sorted())
    #expect(Set(after).subtracting(before).map(\.name) == ["x.1.i.title"])
    #expect(try database.read { tx in try volumes.indexDifferences(in: tx) }.isEmpty)
    try database.close()
  }

  @Test func `while one index is built the others answer, and the rows are entered into all of them`() throws {
    try fill(50)
    let (first, volumes) = try open(TitleFormat.self)
    try warm(volumes)
    try first.close()
    SlowVolumeFormat.gate.shut()
    let (database, slow) = try open(SlowVolumeFormat.self)
    try database.read { tx throws in
      #expect(try slow.count(.value("title 1"), from: \.title, in: tx) == 5)
      #expect(errorCode { _ = try slow.count(.value("title 1"), from: \.slow, in: tx) } == .notReady)
      // A query that only this index can serve throws as well.
      #expect(errorCode { _ = try slow.query.filter { $0.slowTitle == "title 1" }.count(in: tx) } == .notReady)
      #expect(errorCode { _ = try slow.query.filter { $0.price == 1 }.count(in: tx) } == .notIndexed)
    }
    SlowVolumeFormat.gate.open()
    try warm(slow)
    #expect(try database.read { tx in try slow.count(.value("title 1"), from: \.slow, in: tx) } == 5)
    #expect(try database.read { tx in try slow.indexDifferences(in: tx) }.isEmpty)
    try database.close()
  }

  @Test func `progress is evaluating, then working, then complete`() throws {
    try fill(2_500)
    let (database, volumes) = try open(VolumeFormat.self)
    let seen = Mutex<[WarmProgress]>([])
    try warm(volumes) { progress in seen.withLock { $0.append(progress) } }
    let list = seen.withLock { $0 }
    #expect(list.first == .evaluating && list.last == .complete(total: 2_500))
    // A line such as "row \(current + 1) of \(total)" never names more rows than there are.
    #expect(
      list.dropFirst().dropLast().allSatisfy {
        if case .working(let current, let total) = $0 { current < total && total == 2_500 } else { false }
      })
    #expect(errorCode { try database.read { _ in try warm(volumes) } } == .invalidArgument)
    try database.close()
  }

  @Test func `a row that can't be decoded is listed, stays out of the indexes, and enters them when it is set`() throws
  {
    try fill(20)
    let plain = try shared.open()
    try plain.write { tx in try tx.set(TitleOnly(title: "no volume"), key: 7, in: "volumes") }
    try plain.close()
    let (database, volumes) = try open(VolumeFormat.self)
    try warm(volumes)
    try database.write { tx throws in
      let rows = try volumes.unindexedRows(in: tx)
      #expect(rows.map(\.key.text) == ["7"] && rows.first?.reason.hasPrefix("decodingFailed") == true)
      #expect(try volumes.count(.all, from: \.title, in: tx) == 19)
      #expect(try volumes.indexDifferences(in: tx).isEmpty)
      try volumes.persist(Volume(id: 7, title: "a volume"), in: tx)
      #expect(try volumes.unindexedRows(in: tx).isEmpty)
      #expect(try volumes.count(.value("a volume"), from: \.title, in: tx) == 1)
    }
    try database.close()
  }

  @Test func `a row that can't be decoded any more leaves the indexes when it is removed or set`() throws {
    // These rows were written by a program that had the index and another type.
    let (database, volumes) = try open(TitleFormat.self)
    try database.write { tx throws in
      for id in 1...4 { try volumes.persist(Volume(id: id, title: "v\(id % 2)"), in: tx) }
    }
    try database.close()
    let (other, strict) = try open(StrictVolumeFormat.self)
    try warm(strict)
    try other.write { tx throws in
      _ = try strict.deleteIfPresent(1, in: tx)
      try strict.persist(StrictVolume(id: 2, title: "strict", more: 1), in: tx)
      try strict.persist(StrictVolume(id: 2, title: "strict again", more: 1), in: tx)
      #expect(try strict.count(.value("v0"), from: \.title, in: tx) == 1)
      #expect(try strict.count(.value("v1"), from: \.title, in: tx) == 1)
      #expect(try strict.count(.value("strict"), from: \.title, in: tx) == 0)
      _ = try strict.delete(3...4, in: tx)
    }
    try other.read { tx throws in
      #expect(try Array(strict.load(.all, from: \.title, in: tx)).map(\.title) == ["strict again"])
      #expect(try strict.indexDifferences(in: tx).isEmpty)
    }
    try other.close()
  }

  @Test func `another version of the format reviews the rows, and the index answers meanwhile`() throws {
    let (first, old) = try open(ShoutFormat<FirstShout>.self)
    try first.write { tx throws in for id in 1...30 { try old.persist(Shout(id: id, text: "word \(id % 3)"), in: tx) } }
    try first.close()
    let (database, new) = try open(ShoutFormat<SecondShout>.self)
    // Former entries of a row are removed if it is changed before it is reviewed.
    try database.write { tx throws in
      _ = try new.delete(1, in: tx)
      try new.persist(Shout(id: 2, text: "other"), in: tx)
      try new.persist(Shout(id: 2, text: "other again"), in: tx)
    }
    try warm(new)
    try database.read { tx throws in
      #expect(try new.count(.value("word 1"), from: \.text, in: tx) == 0)
      #expect(try new.count(.value("WORD 1"), from: \.text, in: tx) == 9)
      #expect(try new.count(.value("other"), from: \.text, in: tx) == 0)
      #expect(try new.count(.value("other again"), from: \.text, in: tx) == 1)
      #expect(try new.indexDifferences(in: tx).isEmpty)
    }
    try database.close()
  }

  @Test func `rows that were written by a program without the format are caught up`() throws {
    let (first, volumes) = try open(VolumeFormat.self)
    try first.write { tx throws in for id in 1...9 { try volumes.persist(Volume(id: id, title: "t"), in: tx) } }
    try first.close()
    let plain = try shared.open()
    try plain.write { tx throws in
      try tx.set(Volume(id: 3, title: "three"), key: 3, in: "volumes")
      try tx.remove(key: 4, in: "volumes")
      try tx.set(Volume(id: 20, title: "twenty"), key: 20, in: "volumes")
    }
    try plain.close()
    let (database, again) = try open(VolumeFormat.self)
    try warm(again)
    try database.read { tx throws in
      #expect(try again.count(.value("t"), from: \.title, in: tx) == 7)
      #expect(try again.count(.value("three"), from: \.title, in: tx) == 1)
      #expect(try again.indexDifferences(in: tx).isEmpty)
    }
    try database.close()
  }

  @Test func `rebuild recreates an index from the rows, and verify finds differences`() throws {
    let (database, shouts) = try open(ShoutFormat<FirstShout>.self)
    try database.write { tx throws in for id in 1...50 { try shouts.persist(Shout(id: id, text: "x\(id)"), in: tx) } }
    // The computation changes, but not its version.
    FirstShout.suffix.withLock { $0 = "!" }
    defer { FirstShout.suffix.withLock { $0 = "" } }
    let found = try database.read { tx in try shouts.indexDifferences(in: tx) }
    #expect(found.count { $0.kind == .missing } == 50 && found.count { $0.kind == .stale } == 50)
    #expect(found.first?.description == "index \"text\": missing \"x1!\" of shouts/1")
    try rebuild(shouts, \.text)
    #expect(try database.read { tx in try shouts.count(.value("x1!"), from: \.text, in: tx) } == 1)
    #expect(try database.read { tx in try shouts.indexDifferences(in: tx) }.allSatisfy { $0.kind == .emitted })
    try database.close()
  }

  @Test
  func `a reader process that knows more indexes, or fewer, uses those it shares with the writer`()
    throws
  {
    let (database, volumes) = try open(TitleFormat.self)
    try database.write { tx in try volumes.persist(Volume(id: 1, title: "one", isbn: "i"), in: tx) }
    let more = try shared.readOnly().open(DatabaseDefinition { VolumeFormat.self })
    let known = Store<VolumeFormat>(in: more)
    try more.read { tx throws in
      #expect(try known.load(.value("one"), from: \.title, in: tx).count() == 1)
      #expect(try known.query.filter { $0.title == "one" }.count(in: tx) == 1)
      #expect(try known.query.filter { $0.id == 1 }.count(in: tx) == 1)
      #expect(try known.query.filter { $0.isbn == "i" }.scan().count(in: tx) == 1)
      #expect(errorCode { _ = try known.query.filter { $0.isbn == "i" }.count(in: tx) } == .notReady)
      #expect(errorCode { _ = try known.load(.value("i"), from: \.isbn, in: tx) } == .notReady)
    }
    try database.close()
    let (again, _) = try open(VolumeFormat.self)
    let fewer = try shared.readOnly().open(DatabaseDefinition { TitleFormat.self })
    try fewer.read { tx throws in
      #expect(try Store<TitleFormat>(in: fewer).load(.value("one"), from: \.title, in: tx).count() == 1)
    }
    try again.close()
  }

  @Test func `a build that a storage error has ended is continued by warm, and by rebuild`() throws {
    try fill(3_000)
    let failing = FailingBackend(shared)
    let database = try Database.open(failing, path: "failing", definition: DatabaseDefinition { TitleFormat.self })
    let volumes = Store<TitleFormat>(in: database)
    try warm(volumes)
    for isRebuilt in [false, true] {
      failing.fail(.max)
      #expect(errorCode { try volumes.rebuild(\.title) } == .storage)
      failing.mend()
      try database.core.rebuild([0], of: IndexesName.name(for: "volumes")) { _ in
        failing.fail(.max, after: 1)
      }
      #expect(errorCode { try warm(volumes) } == .storage)
      let error = #expect(throws: DatabaseError.self) {
        try database.read { tx in _ = try volumes.count(.value("title 1"), from: \.title, in: tx) }
      }
      #expect(error?.code == .notReady && error?.message.contains("was ended: ") == true)
      failing.mend()
      if isRebuilt { try volumes.rebuild(\.title) } else { try warm(volumes) }
      #expect(try database.read { tx in try volumes.count(.value("title 1"), from: \.title, in: tx) } == 300)
      #expect(try database.read { tx in try volumes.indexDifferences(in: tx) }.isEmpty)
    }
    try database.close()
  }

  @Test func `a reader process uses the indexes that are ready in the writer`() throws {
    let (database, volumes) = try open(VolumeFormat.self)
    try database.write { tx in try volumes.persist(Volume(id: 1, title: "one", isbn: "i"), in: tx) }
    let reader = try shared.readOnly().open(DatabaseDefinition { VolumeFormat.self })
    let read = Store<VolumeFormat>(in: reader)
    try reader.read { tx throws in
      #expect(try read.load(.value("i"), from: \.isbn, in: tx)?.title == "one")
      #expect(try read.load(.value("one"), from: \.title, in: tx).count() == 1)
    }
    try database.close()
  }
}

private func warm<Format: StoreFormat>(
  _ store: Store<Format>, _ progress: @escaping @Sendable (WarmProgress) -> Void
) throws {
  try store.warm(progress)
}

private struct TitleFormat: StoreFormat {
  typealias Instance = Volume
  static let collection = "volumes"
  let title = Index(\.title)
}

/// A format with an index whose build waits at a gate.
private struct SlowVolumeFormat: StoreFormat {
  typealias Instance = Volume
  static let collection = "volumes"
  static let gate = Gate()
  let title = Index(\.title)
  let slow = Index(\.slowTitle, version: 1)
}

extension Volume {
  fileprivate var slowTitle: String {
    SlowVolumeFormat.gate.pass()
    return title
  }
}

private struct TitleOnly: Codable { var title: String }

/// A volume with a field that older rows do not have.
private struct StrictVolume: Codable, Identifiable {
  var id: Int
  var title: String
  var more: Int
}

private struct StrictVolumeFormat: StoreFormat {
  typealias Instance = StrictVolume
  static let collection = "volumes"
  let title = Index(\.title)
}

private struct Shout: Codable, Identifiable {
  var id: Int
  var text: String
}

/// The way in which one start of the program reads shouts.
private protocol ShoutReading: Sendable {
  associatedtype Version: RawRepresentable & Hashable & CaseIterable & Sendable where Version.RawValue == Int
  static var current: Version { get }
  static func text(_ text: String, by version: Version) -> String
}

private enum FirstShout: ShoutReading {
  enum Version: Int, CaseIterable { case first }
  static let suffix = Mutex("")
  static let current = Version.first
  static func text(_ text: String, by version: Version) -> String { text + suffix.withLock { $0 } }
}

private enum SecondShout: ShoutReading {
  enum Version: Int, CaseIterable { case first, second }
  static let current = Version.second
  static func text(_ text: String, by version: Version) -> String { version == .first ? text.uppercased() : text }
}

private struct ShoutFormat<Reading: ShoutReading>: StoreFormat {
  typealias Instance = Shout
  typealias Version = Reading.Version
  static var collection: String { "shouts" }
  static var currentVersion: Reading.Version { Reading.current }
  let text = Index(\.text)

  static func decode(_ stored: StoredValue, version: Reading.Version) throws -> Shout {
    var shout = try stored.decode(Shout.self)
    shout.text = Reading.text(shout.text, by: version)
    return shout
  }
}
