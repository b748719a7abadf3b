import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the snapshot that readers get, and of the order in which commits are reported.
struct PublicationTests {
  private final class Fixture {
    let backend = ToyBackend()
    let announced = Called()
    let publication: Publication
    private let family: StorageFamily

    init() throws {
      family = try backend.createFamily("f", options: StorageFamilyOptions())
      publication = Publication(backend: backend) { [announced] _, changes in announced.add(changes.label ?? "") }
    }

    /// Applies a commit, as a writer does.
    func apply(_ key: UInt8) throws -> (number: UInt64, ticket: any StorageTicket) {
      let number = try publication.begin().number
      var batch = StorageBatch()
      batch.put([key], [key], in: family)
      let ticket = try backend.commit(batch, check: nil, durability: .process)
      let pending = PendingChangeSet(changes: ChangeRecorder(), label: "\(key)", custom: [], time: 0)
      publication.applied(number, ticket, pending, [])
      return (number, ticket)
    }

    var seen: [UInt8] {
      get throws { try Contract.rows(try publication.snapshot(), family).map { $0.key[0] } }
    }
  }

  @Test func `readers get the snapshot before the oldest commit that is not acknowledged`() throws {
    let fixture = try Fixture()
    #expect(try fixture.seen == [])
    let first = try fixture.apply(1)
    let second = try fixture.apply(2)
    let third = try fixture.apply(3)
    #expect(try fixture.seen == [])
    try fixture.publication.acknowledge(first.number)
    #expect(try fixture.seen == [1])
    try fixture.publication.acknowledge(third.number)
    #expect(try fixture.seen == [1, 2, 3])
    try fixture.publication.acknowledge(second.number)
    #expect(try fixture.seen == [1, 2, 3])
    #expect(fixture.announced.all == ["1", "2", "3"])
  }

  @Test func `a commit that was refused leaves the others unchanged`() throws {
    let fixture = try Fixture()
    let first = try fixture.apply(1)
    let refused = try fixture.publication.begin().number
    fixture.publication.refused(refused)
    let second = try fixture.apply(2)
    #expect(try fixture.seen == [])
    try fixture.publication.acknowledge(second.number)
    #expect(try fixture.seen == [1, 2])
    #expect(fixture.announced.all == ["1", "2"])
    try fixture.publication.acknowledge(first.number)
    #expect(fixture.announced.all == ["1", "2"])
  }

  /// This must hold after a commit was refused, too.
  @Test func `readers get the state of the storage if no commit is in flight`() throws {
    let fixture = try Fixture()
    let refused = try fixture.publication.begin().number
    #expect(try fixture.seen == [])
    fixture.publication.refused(refused)
    try fixture.publication.acknowledge(try fixture.apply(1).number)
    #expect(try fixture.seen == [1])
  }

  @Test func `no commit is acknowledged, reported or begun after a failure`() throws {
    struct Lost: Error {}
    let fixture = try Fixture()
    try fixture.publication.acknowledge(try fixture.apply(1).number)
    let second = try fixture.apply(2)
    let third = try fixture.apply(3)
    #expect(fixture.publication.fail(Lost()).code == .outcomeUnknown)
    for number in [second.number, third.number] {
      #expect(Contract.code { try fixture.publication.acknowledge(number) } == .outcomeUnknown)
    }
    #expect(Contract.code { _ = try fixture.apply(4) } == .outcomeUnknown)
    #expect(try fixture.seen == [1])
    #expect(fixture.announced.all == ["1"])
  }

  @Test func `readers between two commits see a version and its reported changes, and nothing later`() throws {
    let fixture = try Fixture()
    try fixture.publication.acknowledge(try fixture.apply(1).number)
    _ = try fixture.apply(2)
    let announced = fixture.announced
    let (snapshot, known) = try fixture.publication.snapshot { announced.all }
    #expect(known == ["1"])
    #expect(snapshot.version < (try fixture.backend.snapshot().version))
  }
}
