/// What the definition of an extension says of itself, read once, at its registration: a definition that computes an
/// answer costs nothing later, and one that answers differently later changes nothing.
struct ExtensionTraits: Sendable {
  let kind: String
  let layoutVersion: UInt32
  let versionTag: String
  let scope: CollectionScope
  let dependencies: [String]
  let isConcurrent: Bool
  let isPersistent: Bool
  let isPopulated: Bool
  let catchesUp: Bool
  let findsRowsByID: Bool

  /// Names and tags are in normal form C, as they are on disk.
  init<Definition: DatabaseExtension>(_ definition: Definition) {
    kind = Name.composed(Definition.kind)
    layoutVersion = Definition.layoutVersion
    versionTag = Name.composed(definition.versionTag)
    scope = definition.scope
    dependencies = definition.dependencies.map(Name.composed)
    isConcurrent = definition.isConcurrent
    isPersistent = definition.isPersistent
    isPopulated = definition.isPopulated
    catchesUp = definition.catchesUp
    findsRowsByID = definition.findsRowsByID
  }

  /// The extensions that must be registered before this one, and that receive each change before it.
  var predecessors: [String] { findsRowsByID ? dependencies + [RowIDMap.name] : dependencies }

  /// Throws `.invalidArgument` for a name, a kind or a version that the catalog's record can't hold.
  func check(name: String) throws {
    try Self.check("the name of an extension", name)
    try Self.check("the kind of extension \"\(name)\"", kind)
    try Self.check("the version of extension \"\(name)\"", versionTag)
  }

  /// A record lists versions of dependencies as `name=version`, with a separator between them.
  private static func check(_ what: String, _ text: String) throws {
    if text.isEmpty { throw DatabaseError(.invalidArgument, "\(what) is empty") }
    guard !text.contains(where: { $0 == "=" || $0 == ExtensionRecord.tagSeparator }) else {
      throw DatabaseError(.invalidArgument, "\(what) is \"\(text)\"; it must not contain \"=\" or U+001F")
    }
  }
}

extension CollectionScope {
  /// As it stands in the catalog's record: `*`, or `+` or `-` and the names in order, each after a separator.
  var recordText: String {
    func list(_ sign: String, _ names: Set<String>) -> String {
      names.map(Name.composed).sorted().reduce(sign) { $0 + String(ExtensionRecord.tagSeparator) + $1 }
    }
    return switch self {
    case .all: "*"
    case .only(let names): list("+", names)
    case .except(let names): list("-", names)
    }
  }
}
