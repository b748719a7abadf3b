/// The properties of an extension's definition, read once, at its registration. A definition that computes them costs
/// nothing later, and one that returns different values later has no effect.
struct ExtensionTraits: Sendable {
  /// The maximum number of parts of an extension, because a `PartSet` has 64 bits.
  static let partsMaximum = 64

  let kind: String
  /// Whether the extension returns changes for observers.
  let reportsChanges: Bool
  /// The configuration, with names and versions in normalization form C, as they are on disk.
  let configuration: ExtensionConfiguration
  /// The index of the part that has the counts of each part, or `nil` for one that is not counted.
  let companions: [Int?]
  /// The name of the map by which the extension looks up rows by number, or `nil` if it does not.
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
    companions = Self.addCompanions(to: &configuration)
    self.configuration = configuration
    rowIDMap = configuration.asksRowsByID ? RowIDMap.name(for: configuration.scope) : nil
  }

  /// Adds the parts that have the counts of counted parts. The runs of a part in memory are those of the writer, so
  /// such an extension takes part in no concurrent writes.
  private static func addCompanions(to configuration: inout ExtensionConfiguration) -> [Int?] {
    var companions: [Int?] = configuration.parts.map { _ in nil }
    for (index, part) in configuration.parts.enumerated() where part.isCounted {
      var companion = PartDefinition(RunFormat.partName(of: part.name))
      companion.version = part.version
      companion.isVolatile = part.isVolatile
      companion.isDerived = part.isDerived
      companions[index] = configuration.parts.count
      configuration.parts.append(companion)
      configuration.commonParts = configuration.commonParts.map { names in
        names.contains(part.name) ? names + [companion.name] : names
      }
      configuration.isConcurrent = false
    }
    return companions + Array(repeating: nil, count: configuration.parts.count - companions.count)
  }

  /// Returns the indexes of parts, and of those that have their counts.
  func withCompanions(_ slots: [Int]) -> [Int] { slots + slots.compactMap { companions[$0] } }

  var parts: [PartDefinition] { configuration.parts }
  var scope: CollectionScope { configuration.scope }
  var dependencies: [String] { configuration.dependencies }
  var isImmediate: Bool { configuration.delivery == .immediate }

  /// Whether the catalog has a record of the extension. An extension that keeps nothing and receives no existing rows
  /// needs none.
  var isRecorded: Bool { !parts.isEmpty || configuration.build != .none }

  /// The names of the extensions that must be registered before this one, and that receive each change before it.
  var predecessors: [String] { rowIDMap.map { dependencies + [$0] } ?? dependencies }

  /// Whether the extension can be built by tables (`IngestedBuild`): it can be brought up to date from the feed, and
  /// keeps something that is not volatile.
  var canBeIngested: Bool {
    configuration.catchesUp && configuration.build == .background && predecessors.isEmpty
      && parts.contains { PartForm($0.form) != .scratch } && parts.allSatisfy { !$0.isVolatile }
  }

  // MARK: - Checks

  /// Throws `.invalidArgument` for a name, a kind or a version that can't be stored in the catalog's record, and
  /// `.invalidDefinition` for a contradictory configuration.
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
    if part.isCounted, part.form != .values || part.isIndependent {
      throw invalid(
        name, "counts the entries of its part \"\(part.name)\", which must be of values, and not independent")
    }
    guard let size = part.memtableSize, !PartDefinition.memtableSizes.contains(size) else { return }
    let (low, high) = (PartDefinition.memtableSizes.lowerBound, PartDefinition.memtableSizes.upperBound)
    throw invalid(
      name, "has a part \"\(part.name)\" with memtables of \(size) bytes; \(low) to \(high) are possible")
  }

  /// Throws `.invalidDefinition` if the extension would receive changes before an extension that it depends on.
  func check(name: String, beside list: ExtensionList) throws {
    guard isImmediate, let other = dependencies.first(where: { list[$0]?.traits.isImmediate == false }) else { return }
    throw invalid(name, "is immediate, and depends on \"\(other)\", which receives changes later")
  }

  private func invalid(_ name: String, _ what: String) -> DatabaseError {
    DatabaseError(.invalidDefinition, "extension \"\(name)\" \(what)")
  }

  /// Throws for a text that is empty or contains a character that separates fields: a record lists the versions of
  /// dependencies as `name=version`, with a separator between them.
  private static func check(_ what: String, _ text: String) throws {
    if text.isEmpty { throw DatabaseError(.invalidArgument, "\(what) is empty") }
    guard !text.contains(where: { $0 == "=" || $0 == ExtensionRecord.tagSeparator }) else {
      throw DatabaseError(.invalidArgument, "\(what) is \"\(text)\"; it must not contain \"=\" or U+001F")
    }
  }
}

extension CollectionScope {
  /// The scope as text for the catalog's record: `*`, or `+` or `-` and the names in order, each after a separator.
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

  /// Creates the scope from a record's text. Returns `nil` for an invalid text.
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

  /// Returns the scope of the collections that belong to either scope.
  func union(_ other: CollectionScope) -> CollectionScope {
    switch (self, other) {
    case (.all, _), (_, .all): .all
    case (.only(let left), .only(let right)): .only(left.union(right))
    case (.except(let left), .except(let right)): .except(left.intersection(right))
    case (.only(let names), .except(let left)), (.except(let left), .only(let names)): .except(left.subtracting(names))
    }
  }
}
