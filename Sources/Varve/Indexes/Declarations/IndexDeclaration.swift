/// The declaration of an index: what it keeps of each instance. The index kinds make it; programs do not use it.
public struct IndexDeclaration<Instance>: Sendable {
  /// A function that appends the values of the instance at an address to a list, as those of the index with this
  /// number.
  typealias Emit = ErasedIndex.Emit

  let identity = IndexIdentity()
  let kind: IndexKind
  /// The name that was given to the index, or `nil` to use the name of its property.
  var name: String?
  /// The version of the index. The program raises it if the same definition yields other values.
  let version: Int
  /// Whether the row is stored with the key.
  var isDirect = false
  /// Whether uniqueness is checked at the end of the transaction instead of at the call.
  let isDeferred: Bool
  /// Whether the part of the index keeps counts. It is not a part of the definition on disk, because the entries are
  /// the same.
  let isCounted: Bool
  /// Whether instances whose value can't be a key are left out; otherwise they are refused.
  let skipsInvalid: Bool
  /// Whether the values depend on the metadata of the row.
  var readsMetadata = false
  let fields: [IndexField<Instance>]
  /// The prefix of the last field that the index keeps, or `nil` if it keeps the whole field.
  let prefix: KeyPrefix?
  /// The type of the index's values.
  let keyType: KeyType
  let condition: Condition<Instance>?
  let emit: Emit

  /// Creates a declaration whose values are made of fields.
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
    isCounted = options.isCounted
    skipsInvalid = options.skipsInvalid
    condition = options.condition
  }
}

/// The kind of an index: the number of rows for a value, and of values for a row.
enum IndexKind: String, Sendable {
  /// A value has many rows, and a row has one value.
  case plain = "index"
  /// A value has one row, and a row has one value.
  case oneToOne
  /// A value has one row, and a row has several values.
  case manyToOne
  /// A value has many rows, and a row has several values.
  case manyToMany

  var isUnique: Bool { self == .oneToOne || self == .manyToOne }
  var hasSeveralValues: Bool { self == .manyToOne || self == .manyToMany }
}

/// The options that the initializers of all index kinds have in common.
struct IndexOptions<Instance>: Sendable {
  var name: String?
  var version = 0
  var isDeferred = false
  var isCounted = false
  var skipsInvalid = false
  var condition: Condition<Instance>?
}

extension IndexDeclaration {
  /// Returns the text that must be the same for the entries on disk to be usable: kind, types, direct, condition and
  /// fields. Throws `.invalidDefinition` if it can't be determined. The text is on disk, as the version of the index's
  /// part, and must never change.
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
