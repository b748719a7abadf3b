import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of a transaction's changes by collection, against a dictionary that is copied at each savepoint.
struct ChangedCollectionsTests {
  private typealias Model = [UInt32: [[UInt8]: RowState]]

  private static func info(_ id: UInt32) -> CollectionInfo {
    let family = StorageFamily(name: "objects", number: 1)
    return CollectionInfo(
      name: "c\(id)", record: CollectionRecord(id: id, coder: 0, isOwn: true, keyType: "string"), coders: CoderTable(),
      objects: family, metadata: family, definition: nil, versions: VersionNumbers())
  }

  private static func content(_ changes: ChangeRecorder) -> Model {
    var content: Model = [:]
    for collection in changes.collections.ordered {
      let rows = collection.rows.pairs.map { ($0.key, $0.value) }
      content[collection.info.record.id] = Dictionary(uniqueKeysWithValues: rows)
    }
    return content
  }

  @Test(arguments: [1, 2, 8, 9, 30], 1...UInt64(6))
  func `the changes of few and of many collections equal those of a dictionary, undone or not`(
    count: Int, seed: UInt64
  ) throws {
    var random = seededRandom("changed collections", seed)
    let infos = (1...UInt32(count)).map { Self.info($0 * 7) }
    var changes = ChangeRecorder()
    var model: Model = [:]
    var savepoints: [(mark: Int, model: Model)] = []
    var undone = 0
    for step in 0..<2_000 {
      switch random.below(20) {
      case 0: savepoints.append((changes.setSavepoint(), model))
      case 1:
        guard let last = savepoints.popLast() else { continue }
        changes.rollBack(to: last.mark)
        model = last.model
        undone += 1
      case 2:
        if savepoints.popLast() != nil { changes.releaseSavepoint() }
      default:
        let info = infos[random.below(count)]
        let key = [UInt8(random.below(6))]
        let event = RowChange.Event(rawValue: UInt8(random.below(8))) ?? .removed
        changes.note(event, key, info)
        model[info.record.id, default: [:]][key] = RowState(event, before: model[info.record.id]?[key])
      }
      try #require(Self.content(changes) == model, "seed \(seed), step \(step)")
      try #require(changes.isEmpty == model.isEmpty, "seed \(seed), step \(step)")
      let ids = changes.collections.ordered.map(\.info.record.id)
      try #require(ids == ids.sorted(), "seed \(seed), step \(step)")
    }
    #expect(undone > 10)
  }
}
