/// What the definition of an extension says of itself, read once, at its registration: a definition that computes an
/// answer costs nothing later, and one that answers differently later changes nothing.
struct ExtensionTraits: Sendable {
  /// The most parts that an extension has: a set of them is 64 bits.
  static let partsMaximum = 64

  let kind: String
  /// Whether its commits mean something for observers.
  let reportsChanges: Bool
  /// Names and versions are in normal form C, as they are on disk.
  let configuration: ExtensionConfiguration
  /// The map by which it asks for rows by number; nil where it does not ask.
  let rowIDMap: String?

  init<Definition: DatabaseExtension>(_ definition: Definition) {
    kind = Name.composed(Definition.kind)
    reportsChanges = Definition.Changes.self != Never.self
    var configuration = definition.configuration
    configuration.version = Name.composed(configuration.version)
    configuration.dependencies = configuration.dependencies.map(Name.composed)
    for index in configuration.parts.indices {
      configuration.parts[index].name = Name.composed(configuration.parts[index].name)
      configuration.parts[index].version = Name.composed(configuration.parts[index].version)
    }
    self.configuration = configuration
    rowIDMap = configuration.asksRowsByID ? RowIDMap.name(for: configuration.scope) : nil
  }

  var parts: [PartDefinition] { configuration.parts }
  var scope: CollectionScope { configuration.scope }
  var dependencies: [String] { configuration.dependencies }
  var isImmediate: Bool { configuration.delivery == .immediate }

  /// Whether the catalog has a record of it. One that keeps nothing, and is given no rows, needs none.
  var isRecorded: Bool { !parts.isEmpty || configuration.build != .none }

  /// The extensions that must be registered before this one, and that receive each change before it.
  var predecessors: [String] { rowIDMap.map { dependencies + [$0] } ?? dependencies }

  /// Whether it can be built by tables (`IngestedBuild`): the feed tells it what changed meanwhile, and it keeps something.
  var canBeIngested: Bool {
    configuration.catchesUp && configuration.build == .background && predecessors.isEmpty
      && parts.contains { PartForm($0.form) != .scratch } && parts.allSatisfy { !$0.isVolatile }
  }

  // MARK: - Checks

  /// Throws `.invalidArgument` for a name, a kind or a version that the catalog's record can't hold, and
  /// `.invalidDefinition` for a configuration that contradicts itself.
  func check(name: String) throws {
    try Self.check("the name of an extension", name)
    try Self.check("the kind of extension \"\(name)\"", kind)
    try Self.check("the version of extension \"\(name)\"", configuration.version)
    guard parts.count <= Self.partsMaximum else {
      throw invalid(name, "has \(parts.count) parts; at most \(Self.partsMaximum) are possible")
    }
    var names: Set<String> = []
    for part in parts {
      if part.name.isEmpty { throw invalid(name, "has a part without a name") }
      guard names.insert(part.name).inserted else { throw invalid(name, "has two parts named \"\(part.name)\"") }
      if part.isVolatile, configuration.catchesUp {
        throw invalid(name, "catches up, and its part \"\(part.name)\" is volatile: it would be empty after each open")
      }
      try check(part, of: name)
    }
    if dependencies.contains(name) { throw invalid(name, "depends on itself") }
  }

  private func check(_ part: PartDefinition, of name: String) throws {
    if !part.isDerived, part.isVolatile || part.form == .scratch {
      throw invalid(
        name, "would lose what its part \"\(part.name)\" has: it is not made of rows, and is volatile or scratch")
    }
    if part.form == .scratch, part.isVolatile || part.isIndependent || part.memtableSize != nil {
      throw invalid(
        name, "keeps nothing in its part \"\(part.name)\", which is scratch, and has options for what it keeps")
    }
    guard let size = part.memtableSize, !PartDefinition.memtableSizes.contains(size) else { return }
    let (low, high) = (PartDefinition.memtableSizes.lowerBound, PartDefinition.memtableSizes.upperBound)
    throw invalid(
      name, "has a part \"\(part.name)\" with memtables of \(size) bytes; \(low) to \(high) are possible")
  }

  /// Throws `.invalidDefinition` where it receives changes before an extension that it depends on.
  func check(name: String, beside list: ExtensionList) throws {
    guard isImmediate, let other = dependencies.first(where: { list[$0]?.traits.isImmediate == false }) else { return }
    throw invalid(name, "is immediate, and depends on \"\(other)\", which receives changes later")
  }

  private func invalid(_ name: String, _ what: String) -> DatabaseError {
    DatabaseError(.invalidDefinition, "extension \"\(name)\" \(what)")
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

  /// The scope of a record's text; nil for a text that is none.
  init?(recordText: String) {
    let fields = recordText.split(separator: ExtensionRecord.tagSeparator, omittingEmptySubsequences: false)
    let names = Set(fields.dropFirst().map(String.init))
    switch fields.first {
    case "*" where names.isEmpty: self = .all
    case "+": self = .only(names)
    case "-": self = .except(names)
    default: return nil
    }
  }

  /// The collections of either.
  func union(_ other: CollectionScope) -> CollectionScope {
    switch (self, other) {
    case (.all, _), (_, .all): .all
    case (.only(let left), .only(let right)): .only(left.union(right))
    case (.except(let left), .except(let right)): .except(left.intersection(right))
    case (.only(let names), .except(let left)), (.except(let left), .only(let names)): .except(left.subtracting(names))
    }
  }
}
