import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of all storage backends: the effects of a batch.
struct StorageCommitTests {
  private static let kinds = StorageKind.allCases

  @Test(arguments: kinds)
  func `the changes of a batch apply in order`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { batch in
      batch.put([1], [1], in: family)
      batch.put([1], [2], in: family)
      batch.put([2], [1], in: family)
      batch.delete([2], in: family)
      batch.delete([3], in: family)
      batch.put([3], [3], in: family)
      batch.put([4], [1], in: family)
      batch.put([5], [1], in: family)
      batch.deleteRange(StorageRange(lower: [4], upper: [6]), in: family)
      batch.put([5], [5], in: family)
    }
    let expected = [Pair([1], [2]), Pair([3], [3]), Pair([5], [5])]
    #expect(try Contract.content(backend, family) == expected)
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a range removal includes its lower bound, and not its upper bound`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let keys: [[UInt8]] = [[1], [2], [2, 0], [3], [3, 0], [4]]
    for range in [
      StorageRange(lower: [2], upper: [3]), StorageRange(lower: [2], upper: [2]), StorageRange(lower: [3], upper: [2]),
      StorageRange(lower: [], upper: [4]), StorageRange(lower: [3], upper: nil), StorageRange(),
      StorageRange(lower: [2, 0], upper: [3, 0]), StorageRange(lower: [9], upper: nil), StorageRange(prefix: [3]),
    ] {
      try Contract.commit(backend) { batch in for key in keys { batch.put(key, [], in: family) } }
      try Contract.commit(backend) { $0.deleteRange(range, in: family) }
      let expected = keys.filter { key in
        key.lexicographicallyPrecedes(range.lower) || range.upper.map { !key.lexicographicallyPrecedes($0) } ?? false
      }
      #expect(try Contract.content(backend, family).map(\.key) == (range.isEmpty ? keys : expected), "\(range)")
    }
    try site.close(backend)
  }

  /// The range includes keys past every key that existed before the batch.
  @Test(arguments: kinds)
  func `an unbounded range removes what its batch put before, and not what it puts after`(
    kind: StorageKind
  ) throws {
    let (site, backend, family) = try Contract.open(kind)
    try Contract.commit(backend) { $0.put([5], [0], in: family) }
    try Contract.commit(backend) { batch in
      batch.put([9], [1], in: family)
      batch.put([4], [1], in: family)
      batch.deleteRange(StorageRange(lower: [5]), in: family)
      batch.put([7], [2], in: family)
    }
    #expect(try Contract.content(backend, family) == [Pair([4], [1]), Pair([7], [2])])
    try Contract.commit(backend) { $0.deleteRange(StorageRange(), in: family) }
    try Contract.commit(backend) { batch in
      batch.put([9], [1], in: family)
      batch.deleteRange(StorageRange(), in: family)
    }
    #expect(try Contract.content(backend, family) == [])
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `an unbounded range includes the longest possible key`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let longest = Array(repeating: UInt8(0xFF), count: backend.limits.keySize)
    try Contract.commit(backend) { batch in
      batch.put(longest, [1], in: family)
      batch.put([1], [1], in: family)
    }
    try Contract.commit(backend) { $0.deleteRange(StorageRange(lower: [1, 0]), in: family) }
    #expect(try Contract.content(backend, family) == [Pair([1], [1])])
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `a key that was put once is removed by a single delete`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    for _ in 0..<3 {
      try Contract.commit(backend) { batch in for key in UInt8(0)..<10 { batch.put([key], [key], in: family) } }
      try Contract.commit(backend) { batch in
        for key in UInt8(0)..<10 where key % 2 == 0 { batch.singleDelete([key], in: family) }
      }
      #expect(try Contract.content(backend, family).map { $0.key[0] } == [1, 3, 5, 7, 9])
      try Contract.commit(backend) { batch in
        for key in UInt8(0)..<10 where key % 2 == 1 { batch.singleDelete([key], in: family) }
      }
      #expect(try Contract.content(backend, family) == [])
    }
    try site.close(backend)
    let again = try site.open()
    #expect(try Contract.content(again, family) == [])
    try again.close()
  }

  // MARK: - Counters

  @Test(arguments: kinds)
  func `counters add up, wrap around, and start at zero`(kind: StorageKind) throws {
    let (site, backend, _) = try Contract.open(kind)
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    func counter(_ key: UInt8, _ backend: any StorageBackend) throws -> Int64? {
      try backend.snapshot().value(of: [key], in: counters).flatMap(StorageBatch.counterNumber)
    }
    try Contract.commit(backend) { batch in
      batch.add(5, to: [1], in: counters)
      batch.add(-7, to: [1], in: counters)
      batch.add(.max, to: [2], in: counters)
      batch.put([3], StorageBatch.counterBytes(10), in: counters)
      batch.add(1, to: [3], in: counters)
      batch.add(0, to: [5], in: counters)
    }
    try Contract.commit(backend) { batch in
      batch.add(1, to: [2], in: counters)
      batch.delete([1], in: counters)
      batch.add(100, to: [1], in: counters)
      batch.add(3, to: [4], in: counters)
      batch.delete([4], in: counters)
    }
    let expected: [UInt8: Int64?] = [1: 100, 2: .min, 3: 11, 4: nil, 5: 0]
    for (key, value) in expected { #expect(try counter(key, backend) == value, "counter \(key)") }
    try site.close(backend)
    let again = try site.open()
    for (key, value) in expected { #expect(try counter(key, again) == value, "counter \(key), opened again") }
    try again.close()
  }

  @Test(arguments: kinds)
  func `adding in a family without counters throws, and nothing of its batch is applied`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let code = Contract.code {
      try Contract.commit(backend) { batch in
        batch.put([1], [1], in: family)
        batch.add(1, to: [2], in: family)
      }
    }
    #expect(code == .invalidArgument)
    #expect(try Contract.content(backend, family) == [])
    try site.close(backend)
  }

  // MARK: - Stamps

  @Test(arguments: kinds)
  func `a stamped key begins with the version of its commit, so stamped keys are in commit order`(
    kind: StorageKind
  ) throws {
    let (site, backend, family) = try Contract.open(kind)
    let location = Array(repeating: UInt8(0xAA), count: 8)
    var expected: [Pair] = []
    func write(_ backend: any StorageBackend, _ index: UInt8) throws {
      let ticket = try Contract.commit(backend) { batch in
        batch.putStamped(location + [1], [index], at: .key(0), in: family)
        batch.putStamped(location + [0], [index, index], at: .key(0), in: family)
      }
      let stamp = BigEndian.bytes(ticket.version.number)
      expected += [Pair(stamp + [0], [index, index]), Pair(stamp + [1], [index])]
    }
    for index in UInt8(0)..<5 { try write(backend, index) }
    #expect(try Contract.content(backend, family) == expected)
    try site.close(backend)
    let again = try site.open()
    for index in UInt8(5)..<8 { try write(again, index) }
    #expect(try Contract.content(again, family) == expected)
    #expect(
      Contract.code { try Contract.commit(again) { $0.putStamped([1, 2], [], at: .key(0), in: family) } }
        == .invalidArgument)
    try again.close()
  }

  // MARK: - Atomicity

  @Test(arguments: kinds)
  func `a batch that names a dropped family throws, and nothing of it is applied`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let gone = try backend.createFamily("gone", options: StorageFamilyOptions())
    try backend.dropFamily(gone)
    let before = try backend.snapshot().version
    let code = Contract.code {
      try Contract.commit(backend) { batch in
        batch.put([1], [1], in: family)
        batch.put([1], [1], in: gone)
      }
    }
    #expect(code == .notFound)
    #expect(try Contract.content(backend, family) == [])
    #expect(try backend.snapshot().version == before)
    try site.close(backend)
  }

  @Test(arguments: kinds)
  func `keys, values and batches may be as large as the limits, and no larger`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    let limits = backend.limits
    let key = Array(repeating: UInt8(7), count: limits.keySize)
    // The engine's largest value takes more memory than a test should use.
    let value = [UInt8](repeating: 1, count: min(limits.valueSize, 1 << 20))
    try Contract.commit(backend) { $0.put(key, value, in: family) }
    #expect(try backend.snapshot().value(of: key, in: family) == value)
    let codes: Set<DatabaseError.Code> = [.keyTooLong, .valueTooLong, .batchTooLarge]
    func isRefused(_ body: (inout StorageBatch) -> Void) -> Bool {
      Contract.code {
        try Contract.commit(backend) { batch in
          batch.put([1], [1], in: family)
          body(&batch)
        }
      }.map { codes.contains($0) } ?? false
    }
    #expect(isRefused { $0.put(key + [7], [], in: family) })
    #expect(isRefused { $0.delete(key + [7], in: family) })
    if limits.valueSize < 1 << 20 {
      #expect(isRefused { $0.put([2], value + [1], in: family) })
      #expect(
        isRefused { batch in
          while batch.byteCount <= limits.batchSize { batch.put([2], value, in: family) }
        })
    }
    #expect(try Contract.content(backend, family) == [Pair(key, value)])
    try site.close(backend)
  }

  /// Writers move an amount between two families; the sum must be the same in every snapshot.
  @Test(arguments: kinds)
  func `readers during commits see batches completely, over all families`(kind: StorageKind) throws {
    let (site, backend, first) = try Contract.open(kind)
    let second = try backend.createFamily("g", options: StorageFamilyOptions())
    let counters = try backend.createFamily("counters", options: StorageFamilyOptions(counter: .sum))
    let rounds = TestScale.atMost(200)
    let broken = Mutex<[String]>([])
    let live = Mutex(2)
    Threads.run(4) { thread in
      if thread < 2 {
        defer { live.withLock { $0 -= 1 } }
        for round in 0..<rounds {
          let value = BigEndian.bytes(UInt32(round))
          try Contract.commit(backend) { batch in
            batch.put([UInt8(thread)], value, in: first)
            batch.put([UInt8(thread)], value, in: second)
            batch.add(Int64(round), to: [0], in: counters)
            batch.add(-Int64(round), to: [1], in: counters)
          }
        }
      } else {
        repeat {
          let snapshot = try backend.snapshot()
          let values = try Contract.rows(snapshot, first)
          let others = try Contract.rows(snapshot, second)
          let sum = try Contract.rows(snapshot, counters)
            .compactMap { StorageBatch.counterNumber($0.value) }.reduce(0, &+)
          if values != others || sum != 0 { broken.withLock { $0.append("\(values) \(others) \(sum)") } }
        } while live.withLock { $0 > 0 }
      }
    }
    #expect(broken.withLock { $0 } == [])
    #expect(try Contract.content(backend, first).count == 2)
    try site.close(backend)
  }

  // MARK: - Durability

  @Test(arguments: kinds)
  func `tickets become durable in commit order, whatever durability each requested`(kind: StorageKind) throws {
    let (site, backend, family) = try Contract.open(kind)
    (backend as? ToyBackend)?.inject(.late)
    var batch = StorageBatch()
    batch.put([1], [1], in: family)
    let first = try backend.commit(batch, check: nil, durability: .power)
    let second = try backend.commit(batch, check: nil, durability: .process)
    #expect(first.version < second.version)
    // The second commit must not survive if the first one does not.
    #expect(!second.isDurable || first.isDurable)
    try second.wait()
    #expect(first.isDurable)
    try first.wait()
    #expect(second.isDurable)
    try first.wait()
    try site.close(backend)
  }
}
