import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of all storage backends: reads, ranges, pages and snapshots.
struct StorageReadTests {
  private static let kinds = StorageKind.allCases

  @Test(arguments: kinds)
  func `a key has its value, an empty value exists, and a missing key has none`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { batch in
      batch.put([1], [2, 3], in: family)
      batch.put([2], [], in: family)
    }
    let snapshot = try backend.snapshot()
    #expect(try snapshot.value(of: [1], in: family) == [2, 3])
    #expect(try snapshot.value(of: [2], in: family) == [])
    #expect(try snapshot.value(of: [3], in: family) == nil)
    #expect(try snapshot.value(of: [1, 0], in: family) == nil)
    #expect(try snapshot.contains([2], in: family))
    #expect(try !snapshot.contains([0], in: family))
    #expect(try snapshot.values(of: [[3], [2], [1], [1], [0]], in: family) == [nil, [], [2, 3], [2, 3], nil])
    #expect(try snapshot.values(of: [], in: family) == [])
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a read returns what its body returns, and throws what it throws`(kind: StorageKind) throws {
    struct Stop: Error {}
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { $0.put([1], [2, 3], in: family) }
    let snapshot = try backend.snapshot()
    #expect(throws: Stop.self) { try snapshot.withValue(of: [1], in: family) { _ in throw Stop() } }
    #expect(try snapshot.withValue(of: [1], in: family) { $0.byteCount } == 2)
    #expect(try snapshot.withValue(of: [9], in: family) { $0.byteCount } == nil)
    try site.close(backend)
  }

  /// Keys that a wrong comparison would sort into another order.
  private static let keys: [[UInt8]] = [
    [0], [0, 0], [0, 1], [0, 0xFF], [1], [1, 0], [0x7F], [0x80], [0x80, 0], [0xFE, 0xFF, 0xFF], [0xFF], [0xFF, 0],
    [0xFF, 0xFF], [0xFF, 0xFF, 0xFF], Array(repeating: 0x41, count: 255), Array(repeating: 0x41, count: 256),
  ]

  @Test(arguments: kinds)
  func `rows are ordered by their bytes, in both directions and in every range`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    var random = SeededRandom(seed: 11)
    for key in Self.keys.shuffled(using: &random) {
      try Contract.commit(backend) { $0.put(key, [UInt8(key.count & 0xFF)], in: family) }
    }
    let sorted = Self.keys.sorted { $0.lexicographicallyPrecedes($1) }
    let snapshot = try backend.snapshot()
    let bounds: [[UInt8]?] = Self.keys + [nil, [], [0x41], [0xFF, 0xFF, 0xFF, 0xFF], [2]]
    for lower in bounds {
      for upper in bounds {
        let range = StorageRange(lower: lower ?? [], upper: upper)
        let expected = sorted.filter { key in
          !key.lexicographicallyPrecedes(lower ?? []) && upper.map { key.lexicographicallyPrecedes($0) } ?? true
        }
        #expect(try Contract.rows(snapshot, family, range).map(\.key) == expected, "\(range)")
        let reverse = try Contract.rows(snapshot, family, range, isReverse: true)
        #expect(reverse.map(\.key) == expected.reversed(), "\(range)")
      }
    }
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `pages end at their limits, have at least one row, and report whether they are the last`(kind: StorageKind)
    throws
  {
    let (site, backend, family) = try Contract.open(kind)
    let rows = (0..<200).map { Pair([UInt8($0)], Array(repeating: UInt8($0), count: $0 % 50)) }
    try Contract.commit(backend) { batch in for row in rows { batch.put(row.key, row.value, in: family) } }
    let snapshot = try backend.snapshot()
    for byteLimit in [1, 10, 100, 1_000, 1 << 20] {
      for rowLimit in [1, 2, 7, 199, 200, 201] {
        for isReverse in [false, true] {
          let found = try Contract.rows(
            snapshot, family, isReverse: isReverse, byteLimit: byteLimit, rowLimit: rowLimit)
          #expect(found == (isReverse ? rows.reversed() : rows), "\(byteLimit) bytes, \(rowLimit) rows")
          let keys = try Contract.rows(
            snapshot, family, isReverse: isReverse, keysOnly: true, byteLimit: byteLimit, rowLimit: rowLimit)
          #expect(keys == found.map { Pair($0.key, []) }, "\(byteLimit) bytes, \(rowLimit) rows")
        }
      }
    }
    // The page is full exactly at the end of the range: no row follows its last.
    let range = StorageRange(lower: [10], upper: [20])
    let full = try snapshot.page(range, in: family, isReverse: false, keysOnly: false, byteLimit: 1 << 20, rowLimit: 10)
    #expect(full.count == 10 && full.isLast)
    let less = try snapshot.page(range, in: family, isReverse: true, keysOnly: false, byteLimit: 1 << 20, rowLimit: 9)
    #expect(less.count == 9 && !less.isLast && less.key(0) == [19])
    let none = StorageRange(lower: [20], upper: [20])
    #expect(try snapshot.page(none, in: family, isReverse: false, keysOnly: false, byteLimit: 1, rowLimit: 1).isLast)
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a snapshot does not change, in any family`(kind: StorageKind) throws {
    let (site, backend, first) = try Contract.open(kind)
    let second = try backend.createFamily("g", options: StorageFamilyOptions())
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    var kept: [(snapshot: any StorageSnapshot, round: UInt8, keys: Set<UInt8>)] = []
    var keys: Set<UInt8> = []
    for round in UInt8(0)..<20 {
      try Contract.commit(backend) { batch in
        batch.put([0], [round], in: first)
        batch.put([round + 1], [round], in: first)
        batch.put([0], [round], in: second)
        batch.add(2, to: [0], in: counters)
        if round % 5 == 4 { batch.deleteRange(StorageRange(lower: [1], upper: [round]), in: first) }
      }
      keys.formUnion([0, round + 1])
      if round % 5 == 4 { keys.subtract(1..<round) }
      kept.append((try backend.snapshot(), round, keys))
    }
    try Contract.commit(backend) { batch in
      batch.deleteRange(StorageRange(), in: first)
      batch.delete([0], in: second)
    }
    for (snapshot, round, keys) in kept {
      #expect(try snapshot.value(of: [0], in: first) == [round])
      #expect(try snapshot.value(of: [0], in: second) == [round])
      #expect(try snapshot.value(of: [0], in: counters) == StorageBatch.counterBytes(2 * Int64(round + 1)))
      #expect(try Contract.rows(snapshot, first).map { $0.key[0] } == keys.sorted(), "round \(round)")
    }
    #expect(try Contract.content(backend, first).isEmpty)
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `versions ascend, and a snapshot has the version of the last commit that it sees`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    var last = try backend.snapshot().version
    for index in UInt8(0)..<10 {
      let ticket = try Contract.commit(backend) { batch in
        for key in 0...(index % 3) { batch.put([key], [index], in: family) }
      }
      #expect(ticket.version > last)
      #expect(try backend.snapshot().version == ticket.version)
      last = ticket.version
    }
    // A commit without changes still gets a version: a transaction that only touches rows needs one.
    let empty = try Contract.commit(backend) { _ in }
    #expect(empty.version > last)
    try site.close(backend)
    let again = try site.open()
    let reopened = try #require(try again.families().first { $0.name == "f" })
    let ticket = try Contract.commit(again) { $0.put([7], [7], in: reopened) }
    #expect(ticket.version > empty.version)
    try again.close()
  }

  @Test(arguments: kinds)
  func `a snapshot sees nothing in a family that was created after it`(kind: StorageKind) throws {
    let (site, backend, _) = try Contract.open(kind)
    let before = try backend.snapshot()
    let late = try backend.createFamily("late", options: StorageFamilyOptions())
    try Contract.commit(backend) { $0.put([1], [1], in: late) }
    #expect(try before.value(of: [1], in: late) == nil)
    #expect(try before.values(of: [[1]], in: late) == [nil])
    #expect(try Contract.rows(before, late).isEmpty)
    try site.close(backend)
  }
}
