/// What an index keeps of each instance. The index kinds make it; programs have no use for it.
public struct IndexDeclaration<Instance>: Sendable {
  /// Appends the values of the instance at an address to a list, as those of the index with this number.
  typealias Emit = IndexPlan.Emit

  let identity = IndexIdentity()
  let kind: IndexKind
  /// What its name is where it was given one; the name of its property otherwise.
  var name: String?
  /// Raised by the program where the same definition finds other values.
  let version: Int
  /// Whether the row stands beside the key.
  var isDirect = false
  /// Whether uniqueness is checked at the end of the transaction, and not at the call.
  let isDeferred: Bool
  /// Whether instances whose value can't be a key are left out; otherwise they are refused.
  let skipsInvalid: Bool
  /// Whether the values come from metadata.
  var readsMetadata = false
  let fields: [IndexField<Instance>]
  /// What it keeps of its last field; nil: all of it.
  let prefix: KeyPrefix?
  /// The type of its values.
  let keyType: KeyType
  let condition: Condition<Instance>?
  let emit: Emit

  /// Of values that are made of fields.
  init(
    _ kind: IndexKind, fields: [IndexField<Instance>], _ options: IndexOptions<Instance>
  ) {
    let types = fields.map(\.keyType)
    let encoders = fields.compactMap { field in
      field.prefix.flatMap { prefix in field.encoder.map { PrefixEncoder($0, prefix) } } ?? field.encoder
    }
    self.init(kind, fields, types.count == 1 ? types[0] : .compound(types), options) { instance, _, index, keys in
      for encoder in encoders { try keys.appendPart { try encoder.append(instance, to: &$0) } }
      keys.endValue(of: index)
    }
  }

  init(
    _ kind: IndexKind, _ fields: [IndexField<Instance>], _ keyType: KeyType, _ options: IndexOptions<Instance>,
    emit: @escaping Emit
  ) {
    self.kind = kind
    self.fields = fields
    prefix = fields.last?.prefix
    self.keyType = keyType
    self.emit = emit
    name = options.name
    version = options.version
    isDeferred = options.isDeferred
    skipsInvalid = options.skipsInvalid
    condition = options.condition
  }
}

/// How many rows a value of an index has, and how many values a row.
enum IndexKind: String, Sendable {
  /// A value has many rows, and a row one value.
  case plain = "index"
  /// A value has one row, and a row one value.
  case oneToOne
  /// A value has one row, and a row several values.
  case manyToOne
  /// A value has many rows, and a row several values.
  case manyToMany

  var isUnique: Bool { self == .oneToOne || self == .manyToOne }
  var hasSeveralValues: Bool { self == .manyToOne || self == .manyToMany }
}

/// What the initialisers of all index kinds take.
struct IndexOptions<Instance>: Sendable {
  var name: String?
  var version = 0
  var isDeferred = false
  var skipsInvalid = false
  var condition: Condition<Instance>?
}

extension IndexDeclaration {
  /// What must be the same for what the disk has to be of use: kind, types, direct, condition, fields. Throws
  /// `.invalidDefinition` where it is not known. On disk, as the version of its part: never change.
  func definition(name: String, format: Any.Type) throws -> String {
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidDefinition, "index \"\(name)\" of \(format): \(what)")
    }
    var text = "\(kind.rawValue)|\(keyType.name)|\(isDirect)"
    for field in fields {
      switch field.path.name {
      case .stored(let path): text += "|\(path)"
      case .computed:
        guard version > 0 else {
          throw refused(
            "its value is computed, and nothing shows whether the computation has changed; write `version: 1`, and raise it with each change"
          )
        }
        text += "|computed"
      case .chained(let path):
        throw refused(
          "its path is \"\(path)\", which equals no field of a query; write `Index { $0.\(path.filter { $0 != "?" && $0 != "!" }) }`"
        )
      }
    }
    if let prefix {
      let type = fields.last?.keyType ?? keyType
      guard KeyPrefix.applies(to: type) else {
        throw refused("it keeps prefixes of its last field, which is \(type) and not text or data")
      }
      guard prefix.size > 0 else { throw refused("the prefixes that it keeps have \(prefix.size) bytes") }
      text += "|prefix \(prefix.size)"
    }
    if fields.isEmpty, version <= 0 {
      throw refused("its values come from a closure; write `version: 1`, and raise it with each change")
    }
    if let condition {
      guard let part = condition.definition ?? (version > 0 ? "computed" : nil) else {
        throw refused("its condition asks for a computed field; write `version: 1`, and raise it with each change")
      }
      text += "|where \(part)"
    }
    return text
  }
}
