import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests that the toy storage has exactly the faults that its plan demands.
struct ToyBackendTests {
  private static func open(_ faults: ToyFaults = ToyFaults()) throws -> (ToyBackend, StorageFamily) {
    let backend = ToyBackend(faults: faults)
    return (backend, try backend.createFamily("f", options: StorageFamilyOptions()))
  }

  private static func batch(_ key: UInt8, _ family: StorageFamily) -> StorageBatch {
    var batch = StorageBatch()
    batch.put([key], [key], in: family)
    return batch
  }

  @Test func `an injected conflict fails checked commits only, and changes nothing`() throws {
    let (backend, family) = try Self.open()
    backend.inject(.conflict)
    _ = try backend.commit(Self.batch(1, family), check: nil, durability: .process)
    let check = StorageCheck(try backend.snapshot())
    let code = Contract.code {
      _ = try backend.commit(Self.batch(2, family), check: check, durability: .process)
    }
    #expect(code == .conflict)
    _ = try backend.commit(Self.batch(3, family), check: check, durability: .process)
    #expect(try Contract.content(backend, family).map { $0.key[0] } == [1, 3])
  }

  @Test(arguments: [false, true])
  func `a lost answer leaves the batch applied or not, and the storage stays usable`(isApplied: Bool) throws {
    let (backend, family) = try Self.open()
    backend.inject(.unknown(isApplied: isApplied))
    let code = Contract.code { _ = try backend.commit(Self.batch(1, family), check: nil, durability: .process) }
    #expect(code == .outcomeUnknown)
    #expect(try Contract.content(backend, family).count == (isApplied ? 1 : 0))
    _ = try backend.commit(Self.batch(2, family), check: nil, durability: .process)
    #expect(try backend.snapshot().contains([2], in: family))
  }

  @Test func `a late commit is lost by a restart until a caller has waited for it or for a later one`() throws {
    let (backend, family) = try Self.open()
    backend.inject(.late)
    let first = try backend.commit(Self.batch(1, family), check: nil, durability: .process)
    let second = try backend.commit(Self.batch(2, family), check: nil, durability: .process)
    #expect(!first.isDurable && !second.isDurable)
    #expect(try Contract.content(backend, family).count == 2)
    try first.wait()
    #expect(first.isDurable && !second.isDurable)
    backend.storage.restart()
    #expect(Contract.code { _ = try backend.snapshot() } == .closed)
    #expect(Contract.code { try second.wait() } == .outcomeUnknown)
    let again = ToyBackend(backend.storage)
    #expect(try Contract.content(again, family) == [Pair([1], [1])])
    // The lost commit is not durable even after a later commit is.
    _ = try again.commit(Self.batch(3, family), check: nil, durability: .process)
    #expect(!second.isDurable)
  }

  @Test(arguments: [false, true])
  func `after a commit that can't be made durable nothing is acknowledged`(isDurable: Bool) throws {
    let (backend, family) = try Self.open()
    let before = try backend.commit(Self.batch(0, family), check: nil, durability: .process)
    backend.inject(.failing(isDurable: isDurable))
    let failing = try backend.commit(Self.batch(1, family), check: nil, durability: .power)
    let later = try backend.commit(Self.batch(2, family), check: nil, durability: .process)
    #expect(Contract.code { try later.wait() } == .outcomeUnknown)
    #expect(Contract.code { try failing.wait() } == .outcomeUnknown)
    try before.wait()
    let code = Contract.code { _ = try backend.commit(Self.batch(3, family), check: nil, durability: .process) }
    #expect(code == .storage)
    #expect(Contract.code { try backend.close() } == .outcomeUnknown)
    let again = ToyBackend(backend.storage)
    #expect(try Contract.content(again, family).map { $0.key[0] } == (isDurable ? [0, 1] : [0]))
  }

  @Test func `a snapshot expires by the clock, and each call takes its configured time`() throws {
    var limits = ToyBackend.smallLimits
    limits.snapshotAgeNanoseconds = 5 * ToyBackend.callNanoseconds
    let clock = ManualClock()
    let backend = ToyBackend(limits: limits, clock: clock)
    let family = try backend.createFamily("f", options: StorageFamilyOptions())
    let snapshot = try backend.snapshot()
    for _ in 0..<5 { #expect(try snapshot.value(of: [1], in: family) == nil) }
    #expect(Contract.code { _ = try snapshot.value(of: [1], in: family) } == .snapshotTooOld)
    #expect(Contract.code { _ = try Contract.rows(snapshot, family) } == .snapshotTooOld)
    #expect(clock.now() == 9 * ToyBackend.callNanoseconds)
  }

  @Test func `a single delete of a key that was put twice is refused`() throws {
    let (backend, family) = try Self.open()
    try Contract.commit(backend) { batch in
      batch.put([1], [1], in: family)
      batch.put([1], [2], in: family)
    }
    #expect(Contract.code { try Contract.commit(backend) { $0.singleDelete([1], in: family) } } == .invalidArgument)
    #expect(Contract.code { try Contract.commit(backend) { $0.singleDelete([2], in: family) } } == .invalidArgument)
    #expect(try Contract.content(backend, family) == [Pair([1], [2])])
  }

  /// Faults are drawn from the seed, approximately as often as the plan says.
  @Test func `the same seed and calls produce the same faults`() throws {
    func run(_ seed: UInt64) throws -> [String] {
      var faults = ToyFaults(seed: seed)
      faults.conflictOneIn = 4
      faults.unknownOneIn = 10
      faults.lateOneIn = 3
      faults.tooOldOneIn = 5
      faults.yieldMaximum = 2
      let (backend, family) = try Self.open(faults)
      var trace: [String] = []
      for round in 0..<400 {
        let snapshot = try backend.snapshot()
        do {
          let check = round % 2 == 0 ? StorageCheck(snapshot) : nil
          let ticket = try backend.commit(Self.batch(UInt8(round % 7), family), check: check, durability: .process)
          trace.append(ticket.isDurable ? "durable" : "late")
          try ticket.wait()
          trace.append("\(try snapshot.value(of: [0], in: family) ?? [])")
        } catch let error as DatabaseError {
          trace.append("\(error.code)")
        }
      }
      return trace
    }
    let trace = try run(3)
    #expect(try run(3) == trace)
    #expect(try run(4) != trace)
    for (outcome, range) in [
      ("conflict", 25...75), ("outcomeUnknown", 15...60), ("late", 50...160), ("snapshotTooOld", 25...100),
    ] {
      let count = trace.count { $0 == outcome }
      #expect(range.contains(count), "\(outcome): \(count)")
    }
  }
}
