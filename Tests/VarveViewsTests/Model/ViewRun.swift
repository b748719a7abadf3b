import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// The steps of a run of the model test of views, which it counts.
enum ViewStep: String, CaseIterable, Comparable {
  case insert, update, replaceMetadata, remove, touch, reset, removeCollection, removeAll, echo
  case append, insertAtOffset, insertBefore, insertSorted, move, moveToOffset, removeFromList, emptyList
  case undone, kept, failed, replaceHere, replaceByShadow, replaceUndone
  case reopen, missed, follow, hold, compareAll, query

  static func < (left: ViewStep, right: ViewStep) -> Bool { left.rawValue < right.rawValue }
}

/// A wrong answer.
struct ViewMismatch: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// Random operations on a database with both kinds of views, and on arrays.
final class ViewRun {
  var random: SeededRandom
  let site: StorageSite
  var database: Database
  var model = ViewModel()
  var counts: [ViewStep: Int] = [:]
  /// Whether the views are registered.
  var isRegistered = false
  private var held: [(snapshot: HeldSnapshot, model: ViewModel)] = []

  static let auto = ModelDefinition.byNumber.view.named("auto")
  static let manual = ManualView<Int>(of: ["a", "b"]).named("manual")
  static let groupCount = 5
  static let keyCount = 24

  init(seed: UInt64) throws {
    random = SeededRandom(seed: seed)
    site = try StorageSite(seed % 3 == 0 ? .toy : .memory)
    database = try Database.open(try site.open(), path: "views")
    try register()
  }

  func note(_ step: ViewStep) { counts[step, default: 0] += 1 }

  private func register() throws {
    try database.registerReady(model.definition.view, as: "auto")
    try database.registerReady(Self.manual.definition, as: "manual")
    try database.registerReady(ModelEcho(), as: "echo")
    isRegistered = true
  }

  // MARK: - Steps

  func run(_ steps: Int) throws {
    for _ in 0..<steps {
      switch random.below(60) {
      case 0, 1: try replace()
      case 2: try reopen()
      case 3, 4: try hold()
      case 5 where random.oneIn(3): try follow()
      case 6, 7: try compareAll()
      default: try transaction()
      }
    }
    try compareAll()
    held.removeAll()
    try database.close()
  }

  private struct Failed: Error {}

  private func transaction() throws {
    let before = model
    let fails = random.oneIn(12)
    do {
      try database.change { tx in
        for _ in 0..<1 + random.below(4) { try operation(tx, depth: 0) }
        if random.oneIn(3) { try query(tx) }
        if fails { throw Failed() }
      }
    } catch is Failed {
      note(.failed)
      model = before
    }
    try database.look { tx in try query(tx) }
  }

  private func operation(_ tx: WriteTransaction, depth: Int) throws {
    if depth < 2, random.oneIn(8) { return try savepoint(tx, depth) }
    if isRegistered, random.oneIn(3) { return try listOperation(tx) }
    try rowOperation(tx)
  }

  private func savepoint(_ tx: WriteTransaction, _ depth: Int) throws {
    let before = model
    let isUndone = random.oneIn(2)
    note(isUndone ? .undone : .kept)
    do {
      try tx.savepoint {
        for _ in 0..<1 + random.below(3) { try operation(tx, depth: depth + 1) }
        if random.oneIn(3) { try query(tx) }
        if isUndone { throw Failed() }
      }
    } catch is Failed {
      model = before
    }
  }

  // MARK: - Rows

  func someKey() -> ModelKey { ModelKey(collection: random.oneIn(3) ? "b" : "a", key: random.below(Self.keyCount)) }

  func someRow() -> ModelRow {
    let texts = ["", "a", "ab", "b", "e", "e2", "z"]
    let number: Double = random.oneIn(12) ? .nan : Double(random.below(6) - 2)
    return ModelRow(group: random.below(Self.groupCount), number: number, text: texts[random.below(texts.count)])
  }

  private func set(_ key: ModelKey, _ tx: WriteTransaction) throws {
    let row = someRow()
    let metadata = random.oneIn(2) ? random.below(3) : nil
    if let metadata {
      try tx.set(row, key: key.key, in: key.collection, metadata: metadata)
    } else {
      try tx.set(row, key: key.key, in: key.collection)
    }
    model.set(key, row, metadata: metadata)
    if key.collection == "a", row.echoes, isRegistered {
      note(.echo)
      model.set(ModelKey(collection: "b", key: key.key), ModelEcho.echo(of: row))
    }
  }

  private func remove(_ key: ModelKey) {
    let existed = model.rows[key] != nil
    model.remove(key, isNoticed: isRegistered)
    if existed, key.collection == "a", isRegistered { remove(ModelKey(collection: "b", key: key.key)) }
  }

  private func rowOperation(_ tx: WriteTransaction) throws {
    let key = someKey()
    let exists = model.rows[key] != nil
    switch random.below(40) {
    case 0..<20:
      note(exists ? .update : .insert)
      try set(key, tx)
    case 20..<24:
      note(.replaceMetadata)
      let metadata = random.below(3)
      guard try tx.replaceMetadata(metadata, key: key.key, in: key.collection) == exists else {
        throw ViewMismatch("metadata of \(key)")
      }
      model.rows[key]?.metadata = metadata
    case 24..<30:
      note(.remove)
      guard try tx.remove(key: key.key, in: key.collection) == exists else { throw ViewMismatch("removal of \(key)") }
      remove(key)
    case 30..<33:
      note(.touch)
      _ = try tx.touchRow(key: key.key, in: key.collection)
    case 33..<36:
      note(.reset)
      _ = try tx.remove(key: key.key, in: key.collection)
      remove(key)
      try set(key, tx)
    case 36 where random.oneIn(2):
      note(.removeCollection)
      let gone = model.rows.keys.filter { $0.collection == key.collection }
      try tx.removeAll(in: key.collection)
      for key in gone { remove(key) }
      // The view receives this removal even if it was not registered.
      model.removeFromLists(model.lists.values.flatMap { $0 }.filter { $0.collection == key.collection })
    case 37 where random.oneIn(3):
      note(.removeAll)
      try tx.removeAll()
      model.rows = [:]
      model.lists = [:]
    default: try set(key, tx)
    }
  }

  // MARK: - Lives

  private func replace() throws {
    guard let definition = ModelDefinition.allCases.randomElement(using: &random) else { return }
    let isSmall = random.oneIn(2)
    database.core.extensions.rowsInTransaction.store(isSmall ? 10_000 : 3, ordering: .relaxed)
    let isUndone = random.oneIn(3)
    let before = model
    do {
      try database.change { tx in
        try operation(tx, depth: 0)
        try tx.replaceDefinition(of: Self.auto, by: definition.view)
        if isSmall {
          model.definition = definition
          try operation(tx, depth: 0)
          try query(tx)
        }
        if isUndone { throw Failed() }
      }
      note(isSmall ? .replaceHere : .replaceByShadow)
    } catch is Failed {
      note(.replaceUndone)
      model = before
      return
    }
    if !isSmall {
      // Both definitions hear of changes meanwhile.
      try database.change { tx in for _ in 0..<3 { try rowOperation(tx) } }
      try database.waitReady(Self.auto)
      model.definition = definition
    }
    try compareAll()
  }

  private func reopen() throws {
    try compareAll()
    held.removeAll()
    note(.reopen)
    try database.close()
    if random.oneIn(2) {
      note(.missed)
      database = try Database.open(try site.open(), path: "views")
      isRegistered = false
      for _ in 0..<1 + random.below(4) { try transaction() }
      try database.close()
    }
    database = try Database.open(try site.open(), path: "views")
    if random.oneIn(3), let definition = ModelDefinition.allCases.randomElement(using: &random) {
      model.definition = definition
    }
    // Some builds go by tables.
    database.core.extensions.rowsForIngestion.store(random.oneIn(2) ? 5 : 1_000_000, ordering: .relaxed)
    database.core.extensions.spillSize.store(1 + random.below(4_000), ordering: .relaxed)
    try register()
    model.sweep()
    try compareAll()
  }

  private func hold() throws {
    note(.hold)
    if held.count < 3 {
      held.append((try database.holdSnapshot(), model))
    } else {
      let (snapshot, model) = held.remove(at: random.below(held.count))
      try snapshot.read { tx in try ViewComparison(model, tx).all() }
    }
  }

  private func follow() throws {
    note(.follow)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    try follower.registerReady(model.definition.view, as: "auto")
    try follower.registerReady(Self.manual.definition, as: "manual")
    try follower.look { tx in try ViewComparison(model, tx).all() }
    try follower.close()
  }

  // MARK: - Comparing

  private func compareAll() throws {
    note(.compareAll)
    try database.look { tx in try ViewComparison(model, tx).all() }
  }

  private func query(_ tx: ReadTransaction) throws {
    guard isRegistered else { return }
    note(.query)
    try ViewComparison(model, tx).some(&random)
  }
}
