import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of all storage backends: families, opening, closing and checkpoints.
struct StorageLifeTests {
  private static let kinds = StorageKind.allCases

  private static func names(_ backend: any StorageBackend) throws -> [String] {
    try backend.families().map(\.name).sorted()
  }

  private static func family(_ name: String, _ backend: any StorageBackend) throws -> StorageFamily {
    try #require(try backend.families().first { $0.name == name })
  }

  // MARK: - Families

  @Test(arguments: kinds)
  func `families are created, listed and dropped, and no number is reused`(kind: StorageKind) throws {
    let (site, backend, first) = try Contract.open(kind)
    #expect(try Self.names(backend) == ["f"])
    #expect(Contract.code { _ = try backend.createFamily("f", options: StorageFamilyOptions()) } == .alreadyExists)
    var numbers = [first.number]
    for _ in 0..<3 {
      let made = try backend.createFamily("g", options: StorageFamilyOptions())
      #expect(made.name == "g" && !numbers.contains(made.number))
      numbers.append(made.number)
      #expect(try Contract.content(backend, made) == [])
      try Contract.commit(backend) { batch in
        batch.put([1], [1], in: made)
        batch.put([1], [1], in: first)
      }
      try backend.dropFamily(made)
      #expect(Contract.code { try backend.dropFamily(made) } == .notFound)
      #expect(Contract.code { _ = try backend.snapshot().value(of: [1], in: made) } != nil)
      #expect(try Self.names(backend) == ["f"])
    }
    #expect(try Contract.content(backend, first) == [Pair([1], [1])])
    try backend.close()
    let again = try site.open()
    let later = try again.createFamily("h", options: StorageFamilyOptions())
    #expect(!numbers.contains(later.number))
    try site.close(again)
  }

  @Test(arguments: kinds)
  func `families and rows keep their contents and numbers after reopening`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    for index in UInt8(0)..<50 {
      try Contract.commit(backend) { batch in
        batch.put([index], Array(repeating: index, count: 300), in: family)
        batch.add(1, to: [0], in: counters)
        if index % 3 == 0 { batch.delete([index / 2], in: family) }
      }
    }
    let content = try Contract.content(backend, family)
    try backend.close()
    for _ in 0..<3 {
      let again = try site.open()
      #expect(try again.families().sorted { $0.number < $1.number } == [family, counters])
      #expect(try Contract.content(again, family) == content)
      #expect(try again.snapshot().value(of: [0], in: counters) == StorageBatch.counterBytes(50))
      try site.close(again)
    }
  }

  @Test(arguments: kinds)
  func `a volatile family is empty after reopening, and usable`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let memo = try backend.createFamily("memo", options: StorageFamilyOptions(isVolatile: true))
    try Contract.commit(backend) { batch in
      batch.put([1], [1], in: memo)
      batch.put([1], [1], in: family)
    }
    try backend.close()
    let again = try site.open()
    let found = try #require(try again.families().first { $0.name == "memo" })
    #expect(found == memo)
    #expect(try Contract.content(again, found) == [])
    #expect(try Contract.content(again, family) == [Pair([1], [1])])
    try Contract.commit(again) { $0.put([2], [2], in: found) }
    #expect(try Contract.content(again, found) == [Pair([2], [2])])
    try site.close(again)
  }

  // MARK: - The end

  @Test(arguments: kinds)
  func `close may be called twice`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { $0.put([1], [1], in: family) }
    try backend.close()
    try backend.close()
    let again = try site.open()
    // Closing the first backend again does not affect the one opened since.
    try backend.close()
    #expect(try Contract.content(again, family) == [Pair([1], [1])])
    try site.close(again)
  }

  @Test(arguments: kinds)
  func `acknowledged commits survive the death of the process`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var backend = try site.open()
    let family = try backend.createFamily("f", options: StorageFamilyOptions())
    var expected: [Pair] = []
    for round in UInt8(0)..<4 {
      for index in UInt8(0)..<20 {
        let row = Pair([round, index], Array(repeating: round, count: 100))
        (backend as? ToyBackend)?.inject(.late)
        try Contract.commit(backend, durability: index % 5 == 0 ? .power : .process) {
          $0.put(row.key, row.value, in: family)
        }
        expected.append(row)
      }
      try site.abandon()
      let left = backend
      backend = try site.open()
      #expect(try Contract.content(backend, family) == expected, "after \(round + 1) deaths")
      // A process that really dies has no threads left; here the test has to end them.
      try left.close()
    }
    try site.close(backend)
  }

  // MARK: - Copies

  @Test(arguments: kinds)
  func `a checkpoint contains the current data and is an independent storage`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    try Contract.commit(backend) { batch in
      for key in UInt8(0)..<100 { batch.put([key], Array(repeating: key, count: 200), in: family) }
      batch.add(7, to: [0], in: counters)
    }
    let before = try Contract.content(backend, family)
    let steps = Mutex<[Double]>([])
    let path = site.makePath()
    try backend.checkpoint(to: path) { step in steps.withLock { $0.append(step) } }
    let reported = steps.withLock { $0 }
    #expect(reported.last == 1 && reported == reported.sorted() && reported.allSatisfy { (0...1).contains($0) })
    #expect(Contract.code { try backend.checkpoint(to: path, progress: nil) } == .alreadyExists)
    try Contract.commit(backend) { $0.deleteRange(StorageRange(), in: family) }
    let copied = try site.checkpoint(at: path)
    let copy = try copied.open()
    #expect(try Contract.content(copy, family) == before)
    try Contract.commit(copy) { batch in
      batch.put([200], [1], in: family)
      batch.add(1, to: [0], in: counters)
    }
    #expect(try copy.snapshot().value(of: [0], in: counters) == StorageBatch.counterBytes(8))
    #expect(try Contract.content(backend, family) == [])
    try copy.close()
    try site.close(backend)
  }

  // MARK: - Read-only access

  @Test(arguments: kinds)
  func `a read-only storage reads everything and refuses every change`(kind: StorageKind) throws {
    let (site, writer, family) = try Contract.open(kind)
    try Contract.commit(writer) { batch in for key in UInt8(0)..<9 { batch.put([key], [key], in: family) } }
    let content = try Contract.content(writer, family)
    try writer.close()
    let backend = try site.openReadOnly()
    #expect(backend.isReadOnly && !writer.isReadOnly)
    #expect(try Contract.content(backend, family) == content)
    #expect(try Contract.rows(try backend.snapshot(), family, isReverse: true) == content.reversed())
    #expect(Contract.code { try Contract.commit(backend) { $0.put([1], [9], in: family) } } == .readOnly)
    #expect(Contract.code { _ = try backend.createFamily("g", options: StorageFamilyOptions()) } == .readOnly)
    #expect(Contract.code { try backend.dropFamily(family) } == .readOnly)
    #expect(try Self.names(backend) == ["f"])
    #expect(try Contract.content(backend, family) == content)
    try backend.close()
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a follower sees each commit of the writer, and families created since`(kind: StorageKind) throws {
    let (site, writer, family) = try Contract.open(kind)
    try Contract.commit(writer) { $0.put([0], [0], in: family) }
    let follower = try site.follow()
    #expect(follower.isReadOnly)
    let first = try follower.snapshot()
    for index in UInt8(1)..<10 {
      let ticket = try Contract.commit(writer) { $0.put([index], [index], in: family) }
      let snapshot = try follower.snapshot()
      #expect(snapshot.version == ticket.version)
      #expect(try Contract.rows(snapshot, family).count == Int(index) + 1)
    }
    #expect(try Contract.rows(first, family) == [Pair([0], [0])])
    let late = try writer.createFamily("late", options: StorageFamilyOptions())
    try Contract.commit(writer) { $0.put([1], [1], in: late) }
    let snapshot = try follower.snapshot()
    #expect(try Self.family("late", follower) == late)
    #expect(try Contract.rows(snapshot, late) == [Pair([1], [1])])
    #expect(Contract.code { try Contract.commit(follower) { $0.put([1], [9], in: family) } } == .readOnly)
    try follower.close()
    try site.close(writer)
  }

  @Test(arguments: kinds)
  func `a wait for changes ends with the first commit after the given version`(kind: StorageKind) async throws {
    let (site, writer, family) = try Contract.open(kind)
    try Contract.commit(writer) { $0.put([0], [0], in: family) }
    let follower = try site.follow()
    let known = try follower.snapshot().version
    let waiting = Task { try await follower.changes(since: known) }
    let ticket = try Contract.commit(writer) { $0.put([1], [1], in: family) }
    let woken = try await waiting.value
    #expect(woken >= ticket.version)
    // A version that is already past is reported at once.
    #expect(try await follower.changes(since: known) >= ticket.version)
    let canceled = Task { try await follower.changes(since: woken) }
    canceled.cancel()
    await #expect(throws: CancellationError.self) { try await canceled.value }
    try follower.close()
    try site.close(writer)
  }
}
