import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of all storage backends: a commit's reads are checked before the commit is applied.
struct StorageCheckTests {
  private static let kinds = StorageKind.allCases

  private enum Read: Sendable {
    case key([UInt8])
    case range(StorageRange)
  }

  private typealias Change = @Sendable (inout StorageBatch, StorageFamily) -> Void

  /// The cases: what other writers change between the snapshot and the commit, what the commit read, and whether that
  /// conflicts.
  private static let cases: [(name: String, Read, isConflict: Bool, Change)] = [
    ("nothing", .key([5]), false, { _, _ in }),
    ("another key", .key([5]), false, { $0.put([5, 0], [9], in: $1) }),
    ("the key is put", .key([5]), true, { $0.put([5], [9], in: $1) }),
    ("the key is put as it was", .key([5]), true, { $0.put([5], [5], in: $1) }),
    ("the key is removed", .key([5]), true, { $0.delete([5], in: $1) }),
    (
      "the key is removed and put", .key([5]), true,
      {
        $0.delete([5], in: $1); $0.put([5], [5], in: $1)
      }
    ),
    (
      "a range around the key is removed", .key([5]), true,
      {
        $0.deleteRange(StorageRange(lower: [4], upper: [6]), in: $1)
      }
    ),
    ("all is removed from the key on", .key([5]), true, { $0.deleteRange(StorageRange(lower: [5]), in: $1) }),
    (
      "a range before the key is removed", .key([5]), false,
      {
        $0.deleteRange(StorageRange(lower: [1], upper: [5]), in: $1)
      }
    ),
    ("a missing key is put", .key([15]), true, { $0.put([15], [9], in: $1) }),
    ("a key in the range is put", .range(StorageRange(lower: [3], upper: [7])), true, { $0.put([6], [9], in: $1) }),
    (
      "a key comes into the range", .range(StorageRange(lower: [3], upper: [7])), true,
      {
        $0.put([3, 1], [9], in: $1)
      }
    ),
    (
      "a key comes at the beginning of the range", .range(StorageRange(lower: [3, 3], upper: [7])), true,
      {
        $0.put([3, 3], [9], in: $1)
      }
    ),
    ("a key in the range is removed", .range(StorageRange(lower: [3], upper: [7])), true, { $0.delete([4], in: $1) }),
    (
      "a key comes where the range ends", .range(StorageRange(lower: [3], upper: [7])), false,
      {
        $0.put([7], [9], in: $1)
      }
    ),
    ("a key comes before the range", .range(StorageRange(lower: [3], upper: [7])), false, { $0.put([2], [9], in: $1) }),
    (
      "a range that overlaps is removed", .range(StorageRange(lower: [3], upper: [7])), true,
      {
        $0.deleteRange(StorageRange(lower: [6], upper: [20]), in: $1)
      }
    ),
    (
      "a range beside it is removed", .range(StorageRange(lower: [3], upper: [7])), false,
      {
        $0.deleteRange(StorageRange(lower: [7], upper: [20]), in: $1)
      }
    ),
    ("a key comes after all", .range(StorageRange(lower: [3])), true, { $0.put([200], [9], in: $1) }),
    (
      "a key comes before a range without an end", .range(StorageRange(lower: [3])), false,
      {
        $0.put([2], [9], in: $1)
      }
    ),
    ("a key comes, and all was read", .range(StorageRange()), true, { $0.put([200], [9], in: $1) }),
    (
      "a key comes, and nothing was read", .range(StorageRange(lower: [7], upper: [7])), false,
      {
        $0.put([7], [9], in: $1)
      }
    ),
  ]

  @Test(arguments: kinds)
  func `a commit is applied only if nothing that it read has changed`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let other = try backend.createFamily("g", options: StorageFamilyOptions())
    for (name, read, isConflict, change) in Self.cases {
      try Contract.commit(backend) { batch in
        batch.deleteRange(StorageRange(), in: family)
        for key in UInt8(1)..<10 { batch.put([key], [key], in: family) }
      }
      for isElsewhere in [false, true] {
        var check = StorageCheck(try backend.snapshot())
        switch read {
        case .key(let key): check.keys.append((family, key))
        case .range(let range): check.ranges.append((family, range))
        }
        try Contract.commit(backend) { change(&$0, isElsewhere ? other : family) }
        let before = try Contract.content(backend, family)
        let code = Contract.code { try Contract.commit(backend, check: check) { $0.put([100], [1], in: family) } }
        let meets = isConflict && !isElsewhere
        #expect(code == (meets ? .conflict : nil), "\(name), in \(isElsewhere ? "another" : "the same") family")
        // A commit that was refused must not change anything.
        if meets { #expect(try Contract.content(backend, family) == before, "\(name)") }
        try Contract.commit(backend) { batch in
          batch.deleteRange(StorageRange(), in: family)
          for key in UInt8(1)..<10 { batch.put([key], [key], in: family) }
        }
      }
    }
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a change before the snapshot is not a conflict, and the commit itself conflicts with the next one`(
    kind: StorageKind
  ) throws {
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { $0.put([1], [1], in: family) }
    var check = StorageCheck(try backend.snapshot())
    check.keys.append((family, [1]))
    try Contract.commit(backend, check: check) { $0.put([1], [2], in: family) }
    let code = Contract.code { try Contract.commit(backend, check: check) { $0.put([1], [3], in: family) } }
    #expect(code == .conflict)
    check = StorageCheck(try backend.snapshot())
    check.keys.append((family, [1]))
    try Contract.commit(backend, check: check) { $0.put([1], [3], in: family) }
    #expect(try backend.snapshot().value(of: [1], in: family) == [3])
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `additions and stamped keys count as changes`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    var check = StorageCheck(try backend.snapshot())
    check.keys.append((counters, [1]))
    try Contract.commit(backend) { $0.add(0, to: [1], in: counters) }
    #expect(Contract.code { try Contract.commit(backend, check: check) { _ in } } == .conflict)
    check = StorageCheck(try backend.snapshot())
    check.ranges.append((family, StorageRange()))
    try Contract.commit(backend) { $0.putStamped(Array(repeating: 0, count: 8), [], at: .key(0), in: family) }
    #expect(Contract.code { try Contract.commit(backend, check: check) { _ in } } == .conflict)
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a read of a family that was dropped since conflicts`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let gone = try backend.createFamily("gone", options: StorageFamilyOptions())
    var keyCheck = StorageCheck(try backend.snapshot())
    keyCheck.keys.append((gone, [1]))
    var rangeCheck = StorageCheck(try backend.snapshot())
    rangeCheck.ranges.append((gone, StorageRange()))
    try backend.dropFamily(gone)
    for check in [keyCheck, rangeCheck] {
      let code = Contract.code { try Contract.commit(backend, check: check) { $0.put([1], [1], in: family) } }
      #expect(code == .conflict)
    }
    #expect(try Contract.content(backend, family) == [])
    try site.close(backend)
  }

  /// The usual optimistic loop: read, add one, commit if no read value has changed, otherwise retry.
  @Test(arguments: kinds)
  func `writers that check what they read lose none of each other's changes`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let rounds = TestScale.atMost(60)
    let conflicts = Mutex(0)
    Threads.run(3) { thread in
      var random = SeededRandom(seed: UInt64(thread))
      for _ in 0..<rounds {
        let key = [UInt8(random.below(2))]
        while true {
          let snapshot = try backend.snapshot()
          let number = try snapshot.value(of: key, in: family).flatMap(StorageBatch.counterNumber) ?? 0
          var check = StorageCheck(snapshot)
          check.keys.append((family, key))
          do {
            try Contract.commit(backend, check: check) {
              $0.put(key, StorageBatch.counterBytes(number + 1), in: family)
            }
            break
          } catch let error as DatabaseError where error.code == .conflict {
            conflicts.withLock { $0 += 1 }
          }
        }
      }
    }
    let sum = try Contract.content(backend, family).compactMap { StorageBatch.counterNumber($0.value) }.reduce(0, +)
    #expect(sum == Int64(3 * rounds))
    print("checked commits, \(kind): \(3 * rounds) committed, \(conflicts.withLock { $0 }) conflicts")
    try site.close(backend)
  }
}
