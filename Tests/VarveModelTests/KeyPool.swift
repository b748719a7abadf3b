import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import Varve

/// The keys of one collection of the model suite, sorted and unique, and the calls of a transaction with them.
///
/// The model identifies a key by its index here, so that it does not depend on the key type.
class KeyPool {
  /// The collection's name.
  let name: String
  let count: Int

  init(_ name: String, count: Int) {
    self.name = name
    self.count = count
  }

  /// A range of indexes in the pool, and the form of the key range that expresses it.
  struct DrawnRange: Sendable {
    enum Form: CaseIterable { case halfOpen, closed, from, upTo, through }
    let form: Form
    let lower: Int
    let upper: Int

    func contains(_ index: Int) -> Bool {
      switch form {
      case .halfOpen: index >= lower && index < upper
      case .closed: index >= lower && index <= upper
      case .from: index >= lower
      case .upTo: index < upper
      case .through: index <= upper
      }
    }
  }

  func drawRange(_ random: inout SeededRandom) -> DrawnRange {
    let (one, other) = (random.below(count), random.below(count))
    return DrawnRange(
      form: DrawnRange.Form.allCases[random.below(5)], lower: min(one, other), upper: max(one, other))
  }

  // Subclasses implement these. `location` returns the index of a row's key in the pool.
  func location(of key: RowKey) throws -> Int? { nil }
  func set(_ index: Int, _ object: some Encodable, _ tx: WriteTransaction) throws {}
  func set(_ index: Int, _ object: ModelObject, _ note: ModelNote?, _ tx: WriteTransaction) throws {}
  func replace(_ index: Int, _ object: ModelObject, _ tx: WriteTransaction) throws -> Bool { false }
  func replace(_ index: Int, note: ModelNote?, _ tx: WriteTransaction) throws -> Bool { false }
  func touch(_ index: Int, _ event: ModelChanges.Event, _ tx: WriteTransaction) throws -> Bool { false }
  func remove(_ index: Int, _ tx: WriteTransaction) throws -> Bool { false }
  func remove(_ indexes: [Int], _ tx: WriteTransaction) throws -> Int { 0 }
  func contains(_ index: Int, _ tx: ReadTransaction) throws -> Bool { false }
  func row(_ index: Int, _ tx: ReadTransaction) throws -> Row? { nil }
  func object(_ index: Int, _ tx: ReadTransaction) throws -> ModelObject? { nil }
  func note(_ index: Int, _ tx: ReadTransaction) throws -> ModelNote? { nil }
  func rows(_ indexes: [Int], _ tx: ReadTransaction) throws -> [Row?] { [] }
  func locations(_ tx: ReadTransaction, descending: Bool) throws -> [Int] { [] }
  /// Whether keys of the type can be in ranges. If so, the two methods below can be called.
  var hasRanges: Bool { false }
  func remove(_ range: DrawnRange, _ tx: WriteTransaction) throws -> Int { 0 }
  func rows(_ range: DrawnRange, descending: Bool, _ tx: ReadTransaction) throws -> RowCursor? { nil }
  func hasChange(_ index: Int, in changes: ChangeSet) throws -> (any: Bool, object: Bool, metadata: Bool)? { nil }
}

/// Keys of one type.
class TypedPool<Key: KeyCodable>: KeyPool {
  let keys: [Key]
  private let locations: [Key: Int]

  /// Creates a pool of `keys`, which are in order and unique.
  init(_ name: String, _ keys: [Key]) {
    self.keys = keys
    locations = Dictionary(uniqueKeysWithValues: zip(keys, keys.indices))
    super.init(name, count: keys.count)
  }

  /// Returns the key in the form that a call passes: a string may be composed differently, for example.
  func key(_ index: Int) -> Key { keys[index] }

  override func location(of key: RowKey) throws -> Int? { locations[try key.key(as: Key.self)] }

  override func set(_ index: Int, _ object: some Encodable, _ tx: WriteTransaction) throws {
    try tx.set(object, key: key(index), in: name)
  }
  override func set(_ index: Int, _ object: ModelObject, _ note: ModelNote?, _ tx: WriteTransaction) throws {
    try tx.set(object, key: key(index), in: name, metadata: note)
  }
  override func replace(_ index: Int, _ object: ModelObject, _ tx: WriteTransaction) throws -> Bool {
    try tx.replaceObject(object, key: key(index), in: name)
  }
  override func replace(_ index: Int, note: ModelNote?, _ tx: WriteTransaction) throws -> Bool {
    try tx.replaceMetadata(note, key: key(index), in: name)
  }
  override func touch(_ index: Int, _ event: ModelChanges.Event, _ tx: WriteTransaction) throws -> Bool {
    switch event {
    case .touchedObject: try tx.touchObject(key: key(index), in: name)
    case .touchedMetadata: try tx.touchMetadata(key: key(index), in: name)
    default: try tx.touchRow(key: key(index), in: name)
    }
  }
  override func remove(_ index: Int, _ tx: WriteTransaction) throws -> Bool {
    try tx.remove(key: key(index), in: name)
  }
  override func remove(_ indexes: [Int], _ tx: WriteTransaction) throws -> Int {
    try tx.remove(keys: indexes.map { key($0) }, in: name)
  }
  override func contains(_ index: Int, _ tx: ReadTransaction) throws -> Bool {
    try tx.contains(key: key(index), in: name)
  }
  override func row(_ index: Int, _ tx: ReadTransaction) throws -> Row? { try tx.row(key: key(index), in: name) }
  override func object(_ index: Int, _ tx: ReadTransaction) throws -> ModelObject? {
    try tx.object(ModelObject.self, key: key(index), in: name)
  }
  override func note(_ index: Int, _ tx: ReadTransaction) throws -> ModelNote? {
    try tx.metadata(ModelNote.self, key: key(index), in: name)
  }
  override func rows(_ indexes: [Int], _ tx: ReadTransaction) throws -> [Row?] {
    try tx.rows(keys: indexes.map { key($0) }, in: name)
  }
  override func locations(_ tx: ReadTransaction, descending: Bool) throws -> [Int] {
    try tx.keys(Key.self, in: name, descending: descending).map { locations[$0] ?? -1 }
  }
  override func hasChange(
    _ index: Int, in changes: ChangeSet
  ) throws -> (any: Bool, object: Bool, metadata: Bool)? {
    let key = key(index)
    return (
      try changes.hasChange(key: key, in: name), try changes.hasObjectChange(key: key, in: name),
      try changes.hasMetadataChange(key: key, in: name)
    )
  }
}

/// Keys of a type that has an order.
class OrderedPool<Key: KeyCodable & Comparable>: TypedPool<Key> {
  /// Sorts the keys and removes duplicates.
  init(_ name: String, unsorted: [Key]) { super.init(name, Array(Set(unsorted)).sorted()) }

  override var hasRanges: Bool { true }

  override func remove(_ range: DrawnRange, _ tx: WriteTransaction) throws -> Int {
    let (lower, upper) = (key(range.lower), key(range.upper))
    return switch range.form {
    case .halfOpen: try tx.remove(in: name, lower..<upper)
    case .closed: try tx.remove(in: name, lower...upper)
    case .from: try tx.remove(in: name, lower...)
    case .upTo: try tx.remove(in: name, ..<upper)
    case .through: try tx.remove(in: name, ...upper)
    }
  }

  override func rows(_ range: DrawnRange, descending: Bool, _ tx: ReadTransaction) throws -> RowCursor? {
    let (lower, upper) = (key(range.lower), key(range.upper))
    return switch range.form {
    case .halfOpen: try tx.rows(in: name, lower..<upper, descending: descending)
    case .closed: try tx.rows(in: name, lower...upper, descending: descending)
    case .from: try tx.rows(in: name, lower..., descending: descending)
    case .upTo: try tx.rows(in: name, ..<upper, descending: descending)
    case .through: try tx.rows(in: name, ...upper, descending: descending)
    }
  }
}

/// Strings, which can also be found by prefix, and in either composition.
final class StringPool: OrderedPool<String> {
  private var turn = 0

  override func key(_ index: Int) -> String {
    turn += 1
    return turn % 3 == 0 ? keys[index].decomposedStringWithCanonicalMapping : keys[index]
  }

  func rows(prefix: String, descending: Bool, _ tx: ReadTransaction) throws -> RowCursor {
    try tx.rows(in: name, keyPrefix: prefix, descending: descending)
  }

  /// Returns whether the key begins with a prefix: compares the scalars of the composed forms, as documented for
  /// prefixes.
  func begins(_ index: Int, with prefix: String) -> Bool {
    Array(keys[index].precomposedStringWithCanonicalMapping.unicodeScalars)
      .starts(with: Array(prefix.precomposedStringWithCanonicalMapping.unicodeScalars))
  }
}
