/// An index as the write path uses it: without generic types, which cost a lookup of their metadata at each use.
final class IndexPlan: Sendable {
  /// Appends the values of the instance at an address to a list, as those of the index with this number. `metadata` asks for
  /// the metadata of the row.
  typealias Emit =
    @Sendable (
      _ instance: InstanceAddress, _ row: IndexedRow, _ index: Int, _ keys: inout IndexKeys
    ) throws -> Void

  /// What the write path does with a value beside entering it.
  struct Kind: OptionSet, Sendable {
    let rawValue: UInt8

    static let direct = Kind(rawValue: 1)
    static let unique = Kind(rawValue: 2)
    static let deferred = Kind(rawValue: 4)
  }

  let name: String
  /// What it is called in the emitted values of rows.
  let number: UInt32
  let kind: Kind
  let skipsInvalid: Bool
  let emit: Emit
  /// Whether the instance at an address is in the index; nil: each is.
  let condition: (@Sendable (InstanceAddress) throws -> Bool)?

  init<Instance>(_ name: String, _ declaration: IndexDeclaration<Instance>) {
    self.name = name
    number = IndexFormat.number(of: name)
    var kind: Kind = declaration.isDirect ? .direct : []
    if declaration.kind.isUnique { kind.insert(.unique) }
    if declaration.isDeferred { kind.insert(.deferred) }
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

extension IndexPlan {
  var isDirect: Bool { kind.contains(.direct) }
  var isUnique: Bool { kind.contains(.unique) }
  var isDeferred: Bool { kind.contains(.deferred) }
}

/// What an index may ask of a row beside its instance. Nothing is made before it is asked for.
enum IndexedRow {
  /// As a change leaves it, and as the change found it.
  case new(ChangeFacts, WriteTransaction)
  case old(ChangeFacts, WriteTransaction)
  case stored(Row)

  /// The row; nil where it is not there.
  var row: Row? {
    get throws {
      switch self {
      case .new(let facts, let transaction): try facts.row(in: transaction)
      case .old(let facts, let transaction): try facts.oldRow(in: transaction)
      case .stored(let row): row
      }
    }
  }
}
