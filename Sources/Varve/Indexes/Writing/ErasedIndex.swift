/// An index as the write path uses it: without generic types, which cost a lookup of their metadata at each use.
final class ErasedIndex: Sendable {
  /// A function that appends the values of the instance at an address to a list, as those of the index with this
  /// number. `row` provides the row with its metadata if the index needs it.
  typealias Emit =
    @Sendable (
      _ instance: InstanceAddress, _ row: IndexedRow, _ index: Int, _ keys: inout IndexKeys
    ) throws -> Void

  /// The work of the write path with a value in addition to storing it.
  struct Kind: OptionSet, Sendable {
    let rawValue: UInt8

    static let direct = Kind(rawValue: 1)
    static let unique = Kind(rawValue: 2)
    static let deferred = Kind(rawValue: 4)
    static let counted = Kind(rawValue: 8)
  }

  let name: String
  /// The number that identifies the index in the emitted values of rows.
  let number: UInt32
  let kind: Kind
  let skipsInvalid: Bool
  let emit: Emit
  /// Returns whether the instance at an address is in the index; `nil` if every instance is.
  let condition: (@Sendable (InstanceAddress) throws -> Bool)?

  init<Instance>(_ name: String, _ declaration: IndexDeclaration<Instance>) {
    self.name = name
    number = IndexFormat.number(of: name)
    var kind: Kind = declaration.isDirect ? .direct : []
    if declaration.kind.isUnique { kind.insert(.unique) }
    if declaration.isDeferred { kind.insert(.deferred) }
    if declaration.isCounted { kind.insert(.counted) }
    self.kind = kind
    skipsInvalid = declaration.skipsInvalid
    emit = declaration.emit
    if let condition = declaration.condition {
      self.condition = { address in try condition.holds(for: address.instance(as: Instance.self)) }
    } else {
      condition = nil
    }
  }
}

extension ErasedIndex {
  var isDirect: Bool { kind.contains(.direct) }
  var isUnique: Bool { kind.contains(.unique) }
  var isDeferred: Bool { kind.contains(.deferred) }
  var isCounted: Bool { kind.contains(.counted) }
}

/// The row, for an index that needs more than its instance. The row is made only when it is requested.
enum IndexedRow {
  /// The row as a change leaves it.
  case new(ChangeFacts, WriteTransaction)
  case stored(Row)

  /// The row, or `nil` if it does not exist.
  var row: Row? {
    get throws {
      switch self {
      case .new(let facts, let transaction): try facts.row(in: transaction)
      case .stored(let row): row
      }
    }
  }
}
