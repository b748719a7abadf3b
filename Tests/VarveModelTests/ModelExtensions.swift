import Synchronization

@testable import Varve

/// An extension that stores the collection of each row by the row's number, and keeps a checksum of that in memory.
struct ModelMirror: DatabaseExtension {
  static let kind = "model.mirror"
  typealias Delta = ModelSum
  var version: String

  final class Shared: Sendable {
    private let sum: Mutex<ModelSum>
    init(_ sum: ModelSum) { self.sum = Mutex(sum) }
    var value: ModelSum { sum.withLock { $0 } }
    func add(_ step: ModelSum) { sum.withLock { $0.add(step) } }
    func set(_ value: ModelSum) { sum.withLock { $0 = value } }
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.events = [.inserts, .updates, .removals]
    configuration.delivery = .immediate
    configuration.keepsState = true
    configuration.isConcurrent = true
    configuration.parts = [PartDefinition("rows")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelMirrorTransaction {
    try ModelMirrorTransaction(context)
  }
  func makeShared(_ view: borrowing SharedView) throws -> Shared { Shared(try Self.sum(view.part("rows"))) }
  func didAcknowledge(_ version: CommitVersion, _ delta: ModelSum?, _ shared: Shared) {
    if let delta { shared.add(delta) }
  }
  func didSkip(to view: borrowing SharedView, _ shared: Shared) throws { shared.set(try Self.sum(view.part("rows"))) }

  static func sum(_ part: Part) throws -> ModelSum {
    var sum = ModelSum()
    var cursor = try part.cursor()
    while let (key, _) = try cursor.next() { sum.add(ModelSum(of: BigEndian.number(key) ?? 0, by: 1)) }
    return sum
  }
}

/// The number of rows, and the sum of their numbers.
struct ModelSum: Hashable, Sendable {
  var count = 0
  var numbers: UInt64 = 0

  init() {}
  init(of number: UInt64, by step: Int) {
    count = step
    numbers = step < 0 ? 0 &- number : number
  }

  mutating func add(_ other: ModelSum) {
    count += other.count
    numbers &+= other.numbers
  }
}

final class ModelMirrorTransaction: ExtensionTransaction {
  typealias Definition = ModelMirror
  let context: ExtensionContext<ModelMirror>
  let rows: Part
  private var steps: [ModelSum] = []

  init(_ context: ExtensionContext<ModelMirror>) throws {
    self.context = context
    rows = try context.part("rows")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = BigEndian.bytes(change.id.number)
    switch change.event {
    case .removed:
      try rows.delete(key)
      steps.append(ModelSum(of: change.id.number, by: -1))
    case .inserted:
      try rows.put(key, Array(change.collection.utf8))
      steps.append(ModelSum(of: change.id.number, by: 1))
    default: try rows.put(key, Array(change.collection.utf8))
    }
  }

  func mark() -> Int { steps.count }
  func rollBack(to mark: Int) { steps.removeSubrange(mark...) }
  func takeDelta(_ version: CommitVersion) -> ModelSum? {
    steps.reduce(into: ModelSum()) { $0.add($1) }
  }

  func all() throws -> [UInt64: String] {
    var all: [UInt64: String] = [:]
    var cursor = try rows.cursor()
    while let (key, value) = try cursor.next() {
      all[BigEndian.number(key) ?? 0] = String(decoding: value, as: UTF8.self)
    }
    return all
  }
}

/// An extension that counts the rows of each collection in counters; it is built after the mirror, and rebuilt with
/// it.
///
/// If hooks of other extensions write rows, it cannot receive all rows at once: it would count twice those that the
/// hooks remove meanwhile.
struct ModelTally: DatabaseExtension {
  static let kind = "model.tally"
  var takesAllAtOnce = true

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = [.inserts, .removals]
    configuration.isConcurrent = true
    configuration.dependencies = ["mirror"]
    configuration.parts = [PartDefinition("counts", .counters(.sum))]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelTallyTransaction {
    try ModelTallyTransaction(context, takesAllAtOnce)
  }
}

final class ModelTallyTransaction: ExtensionTransaction {
  typealias Definition = ModelTally
  private let counts: Part
  private let takesAllAtOnce: Bool
  init(_ context: ExtensionContext<ModelTally>, _ takesAllAtOnce: Bool) throws {
    counts = try context.part("counts")
    self.takesAllAtOnce = takesAllAtOnce
  }

  func didChange(_ change: borrowing RowChange) throws {
    try counts.add(change.event == .removed ? -1 : 1, to: Array(change.collection.utf8))
  }

  func removesAll(in collection: String?) throws -> Bool {
    guard takesAllAtOnce else { return false }
    if let collection {
      try counts.delete(Array(collection.utf8))
    } else {
      try counts.deleteRange(StorageRange())
    }
    return true
  }

  func count(in collection: String) throws -> Int { Int(try counts.counter(Array(collection.utf8))) }
}
