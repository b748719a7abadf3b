internal import Varve

/// The structure of a key type, parsed from its name in the catalog.
indirect enum KeyForm: Hashable, Sendable {
  case string, integer, double, bool, data, date, uuid, decimal, duration
  case optional(KeyForm)
  /// A single part in descending order.
  case descending(KeyForm)
  case compound([KeyForm])
  /// A program's own name for its key type, whose structure is unknown.
  case other

  /// The maximum nesting of a name. Types of programs are far below it; damaged names would overflow the stack.
  private static let nestingMaximum = 64

  init(_ name: String) {
    var rest = Substring(name)
    let form = Self.read(&rest, nesting: 0)
    self = rest.isEmpty ? form : .other
  }

  private static func read(_ rest: inout Substring, nesting: Int) -> KeyForm {
    let word = rest.prefix { $0 != "(" && $0 != ")" && $0 != "," }
    rest = rest.dropFirst(word.count)
    switch word {
    case "string": return .string
    case "int": return .integer
    case "double": return .double
    case "bool": return .bool
    case "data": return .data
    case "date": return .date
    case "uuid": return .uuid
    case "decimal": return .decimal
    case "duration": return .duration
    case "optional", "compound", "descending": break
    default: return .other
    }
    guard nesting < nestingMaximum, rest.first == "(" else { return .other }
    rest = rest.dropFirst()
    var parts: [KeyForm] = []
    if rest.first != ")" {
      parts.append(read(&rest, nesting: nesting + 1))
      while rest.first == "," {
        rest = rest.dropFirst()
        parts.append(read(&rest, nesting: nesting + 1))
      }
    }
    guard rest.first == ")" else { return .other }
    rest = rest.dropFirst()
    if word == "compound" { return .compound(parts) }
    guard parts.count == 1 else { return .other }
    return word == "optional" ? .optional(parts[0]) : reversed(parts[0])
  }

  /// Returns the form whose parts are those of `form` in the opposite order.
  private static func reversed(_ form: KeyForm) -> KeyForm {
    switch form {
    case .descending(let ascending): ascending
    case .compound(let parts): .compound(parts.map(reversed))
    default: form.isOfOnePart ? .descending(form) : .other
    }
  }

  private var isOfOnePart: Bool {
    switch self {
    case .compound, .other: false
    case .optional(let wrapped): wrapped.isOfOnePart
    default: true
    }
  }

  // MARK: - Keys of the type

  /// Returns the range of the keys that begin with a text, if they are strings, or with the first parts of a compound
  /// key, after the bytes that all keys begin with. `name` is that of the type.
  ///
  /// Throws `.invalidKey`, and `.invalidArgument` for keys that have no prefix.
  func range(prefix text: String, after begin: [UInt8], _ name: String) throws -> StorageRange {
    var form = self
    var inner = begin
    while case .optional(let wrapped) = form {
      inner.append(KeyTag.some)
      form = wrapped
    }
    switch form {
    case .string:
      let text = try KeyTextReader.string(text)
      return StorageRange(prefix: KeyRange.prefix(ofStrings: text, after: inner))
    case .compound:
      let parts = begin + (try KeyTextReader.parts(text, self))
      return StorageRange(lower: parts, upper: KeyRange.end(ofParts: parts))
    default:
      throw DatabaseError(.invalidArgument, "keys that are \(name) have no prefix; use a range", key: text)
    }
  }

  /// Throws `.keyTypeDiffers` if a key is of another type, and `.invalidKey` if the bytes are not a key.
  func check(_ key: [UInt8], _ name: String, in collection: String) throws {
    let parts: [KeyPart]
    do {
      parts = try KeyPart.parts(of: key)
    } catch let error as DatabaseError {
      throw error.about(RowKey(collection: collection, bytes: key))
    }
    var index = 0
    guard matches(parts, &index), index == parts.count else {
      throw DatabaseError(
        .keyTypeDiffers, "the keys of the collection are \(name)", collection: collection, key: KeyText.text(of: key))
    }
  }

  /// Whether the structure of the type and of all that it consists of is known.
  var isKnown: Bool {
    switch self {
    case .other: false
    case .optional(let wrapped), .descending(let wrapped): wrapped.isKnown
    case .compound(let forms): forms.allSatisfy(\.isKnown)
    default: true
    }
  }

  /// Returns the number of parts that a key of this type has at the beginning of others, or `nil` if none is there.
  func leadingCount(of parts: [KeyPart]) -> Int? {
    var index = 0
    return matches(parts, &index) ? index : nil
  }

  private func matches(_ parts: [KeyPart], _ index: inout Int) -> Bool {
    switch self {
    case .other:
      index = parts.count
      return true
    case .compound(let forms):
      for form in forms {
        if !form.matches(parts, &index) { return false }
      }
      return true
    default: break
    }
    guard index < parts.count else { return false }
    return matches(parts[index], parts, &index)
  }

  /// Returns whether the part at `index`, of which `part` is the remainder, and the following parts have this form.
  private func matches(_ part: KeyPart, _ parts: [KeyPart], _ index: inout Int) -> Bool {
    switch (self, part) {
    case (.optional, .null), (.string, .string), (.integer, .integer), (.integer, .largeInteger), (.double, .double),
      (.bool, .bool), (.data, .data), (.date, .date), (.uuid, .uuid), (.decimal, .decimal), (.duration, .duration):
      index += 1
      return true
    case (.descending(let ascending), .descending(let value)): return ascending.matches(value, parts, &index)
    case (.optional(let wrapped), .some(let value)): return wrapped.matches(value, parts, &index)
    case (.compound(let forms), _):
      // The first part is inside of an optional, the others follow it.
      guard let first = forms.first else { return false }
      guard first.matches(part, parts, &index) else { return false }
      for form in forms.dropFirst() {
        if !form.matches(parts, &index) { return false }
      }
      return true
    case (.other, _):
      index = parts.count
      return true
    default: return false
    }
  }
}
