import ArgumentParser
import Varve
import VarveEngine
import VarveInspection

/// The database argument that every command begins with, and the ways to open it.
struct DatabaseArgument: ParsableArguments {
  @Argument(help: ArgumentHelp("The directory of the database.", valueName: "database"), completion: .directory)
  var path: String

  /// Opens the engine without writing to the database, and closes it at the end of `body`.
  func reading<Result>(_ body: (Engine) throws -> Result) throws -> Result {
    var options = EngineOptions()
    options.readOnly = true
    options.raisesDescriptorLimit = true
    return try open(options, body)
  }

  /// Opens the engine for writing, as the owner of the database, and closes it at the end of `body`. A missing database
  /// is created only if `create` is true, and with `familyOptions` for its default family.
  func writing<Result>(
    create: Bool = false, familyOptions: FamilyOptions = FamilyOptions(), _ body: (Engine) throws -> Result
  ) throws -> Result {
    if create { try DatabaseLocation.check(path, for: "a database") }
    try DatabaseOwner.assume(of: path)
    var options = EngineOptions()
    options.createIfMissing = create
    options.raisesDescriptorLimit = true
    options.defaultFamilyOptions = familyOptions
    // Families are made as those that were exported, also with operators of programs.
    options.acceptsUnknownMergeOperators = true
    return try open(options, body)
  }

  /// Opens an inspector, which needs no types of objects and does not write, and closes it at the end of `body`.
  func inspecting<Result>(_ body: (DatabaseInspector) throws -> Result) throws -> Result {
    let inspector = try DatabaseInspector.open(at: path)
    let result: Result
    do {
      result = try body(inspector)
    } catch {
      // The first error is the one to report; a second one from closing would hide it.
      try? inspector.close()
      throw error
    }
    try inspector.close()
    return result
  }

  /// Opens the object database for writing, as its owner, and closes it at the end of `body`. A missing database is
  /// created only if `create` is true.
  func writingObjects<Result>(create: Bool, _ body: (Database) throws -> Result) throws -> Result {
    if create { try DatabaseLocation.check(path, for: "a database") }
    try DatabaseOwner.assume(of: path)
    var options = DatabaseOptions()
    options.createsIfMissing = create
    let objects = try Database.open(at: path, options: options)
    let result: Result
    do {
      result = try body(objects)
    } catch {
      try? objects.close()
      throw error
    }
    try objects.close()
    return result
  }

  private func open<Result>(_ options: EngineOptions, _ body: (Engine) throws -> Result) throws -> Result {
    var options = options
    if options.readOnly { options.createIfMissing = false }
    let engine = try Engine.open(at: path, options: options)
    let result: Result
    do {
      result = try body(engine)
    } catch {
      // The first error is the one to report; a second one from closing would hide it.
      try? engine.close()
      throw error
    }
    try engine.close()
    return result
  }
}

extension DatabaseArgument {
  /// Creates the argument for a path that is not on the command line.
  init(path: String) {
    self.init()
    self.path = path
  }
}

/// The column family that a command reads or changes.
struct FamilyOption: ParsableArguments {
  @Option(name: [.short, .long], help: "The column family; without it the default one.")
  var family: String?

  /// Returns the family. Throws if no family has the name.
  func find(in engine: Engine) throws -> ColumnFamily {
    guard let family else { return engine.defaultFamily }
    return try engine.family(named: family)
  }

  /// Says on standard error that a command acts on the default family, if it is empty and the database has others: the
  /// rows of an object database, and of most programs with families, are in those.
  func warnIfEmptyDefault(_ engine: Engine, before action: String) throws {
    guard family == nil else { return }
    let others = engine.families.map(\.name).filter { $0 != engine.defaultFamily.name && $0 != LoadProgress.familyName }
    guard !others.isEmpty else { return }
    var cursor = try engine.cursor(in: engine.defaultFamily)
    try cursor.seekToFirst()
    guard !cursor.isValid else { return }
    let way =
      others.contains { ObjectFamily($0) != nil }
      ? "collections and objects show what a database of objects has" : "--family chooses another one"
    StandardError.write(
      "varve: \(action) the family \"default\", which is empty; the database has \(others.count) more, and \(way)\n")
  }

  /// Returns the family, which is created if it is missing and `create` is true.
  func find(in engine: Engine, create: Bool) throws -> ColumnFamily {
    guard let family else { return engine.defaultFamily }
    return try engine.findFamily(named: family, create: create)
  }
}

/// The choice of one family, for commands that act on all of them otherwise.
struct OnlyFamilyOption: ParsableArguments {
  @Option(name: [.short, .long], help: "Only this column family; without it, all.")
  var family: String?
}

extension Engine {
  /// Returns the family with a name, which is created with the given options if it is missing and `create` is true.
  func findFamily(
    named name: String, create: Bool, options: FamilyOptions = FamilyOptions()
  ) throws -> ColumnFamily {
    if let family = families.first(where: { $0.name == name }) { return family }
    guard create else { return try family(named: name) }
    switch ObjectFamily(name) {
    case nil, .values: return try createFamily(name, options: options)
    case .counters:
      var options = options
      options.mergeOperator = CounterOperator().name
      return try createFamily(name, options: options)
    case .foreign:
      throw ToolError(
        .cannotOpen,
        "the family \"\(name)\" is not there, and only the code that it belongs to knows how to make it; "
          + "a whole database is copied by checkpoint")
    }
  }
}

/// The option that permits writing to the families of the object database directly.
struct RawOption: ParsableArguments {
  @Flag(
    help: ArgumentHelp(
      "Also write to the column families of the object database, without the checks and hooks that keep them consistent.",
      discussion: """
        Those are catalog, objects, metadata, counts, feed, x.*, c.*, volatile.* and tasks.*: their rows belong \
        together, and extensions aren't notified of such writes. Rows are loaded by load --collection.
        """))
  var raw = false

  /// Throws for a family of the object database without `--raw`.
  func check(_ family: String?) throws {
    guard let family, !raw, ObjectFamily(family) != nil else { return }
    throw ToolError(
      .usage,
      "the family \"\(family)\" belongs to the database of objects, and extensions would not be notified of what is "
        + "written to it; load rows with load --collection, or say --raw")
  }
}

/// The option for the output format of a command.
struct OutputOption: ParsableArguments {
  @Flag(help: "Print JSON, one object a line, for programs.")
  var json = false
}

/// The option for the form of keys and values on the command line and in text output.
struct HexOption: ParsableArguments {
  @Flag(
    help: ArgumentHelp(
      "Keys and values are hexadecimal digits, on the command line and in what is printed.",
      discussion: """
        Without it, the bytes of a key on the command line are those of its text. \\xNN, as bytes without a character \
        are printed, is not read there: name such keys with --hex.
        """))
  var hex = false

  /// Returns the bytes that an argument represents.
  func bytes(_ argument: String, _ name: String) throws -> [UInt8] {
    guard hex else { return Array(argument.utf8) }
    guard let bytes = HexText.bytes(argument) else {
      throw ToolError(.usage, "\(name) \"\(argument)\" is not an even number of hexadecimal digits")
    }
    return bytes
  }

  /// Says on standard error that a key which was not found may be one that was printed with escapes.
  func explainAbsence(of argument: String) {
    guard !hex, argument.contains(/\\x[0-9a-f]{2}/) else { return }
    StandardError.write(
      "varve: \"\(argument)\" was taken as it is written; a key that is printed with \\xNN is named with --hex, and "
        + "scan --hex prints its digits\n")
  }

  /// Returns bytes as text for people.
  func text(_ bytes: [UInt8]) -> String { hex ? HexText.text(bytes) : PrintableText.text(bytes) }
}

/// A range of keys.
struct RangeOptions: ParsableArguments {
  @Option(help: "Begin at this key (included).")
  var from: String?

  @Option(help: "End before this key (excluded).")
  var to: String?

  @Option(help: "Only keys that begin with this.")
  var prefix: String?

  func validate() throws {
    guard prefix == nil || (from == nil && to == nil) else {
      throw ValidationError("--prefix is a range of its own: use it without --from and --to")
    }
  }

  /// Returns the bounds of a cursor for the range.
  func bounds(_ hex: HexOption) throws -> CursorBounds {
    if let prefix { return .prefix(try hex.bytes(prefix, "--prefix")) }
    let (lower, upper) = (try lower(hex), try upper(hex))
    try Self.check(lower, upper, to: to)
    return CursorBounds(lower: lower, upper: upper)
  }

  /// Throws a usage error for a range that ends before it begins. `to` is its end as it was written.
  static func check(_ lower: [UInt8]?, _ upper: [UInt8]?, to: String?) throws {
    guard let lower, let upper, upper.lexicographicallyPrecedes(lower) else { return }
    throw ToolError(.usage, "--to \"\(to ?? "")\" is before --from: the range ends before it begins")
  }

  func prefix(_ hex: HexOption) throws -> [UInt8]? { try prefix.map { try hex.bytes($0, "--prefix") } }
  func lower(_ hex: HexOption) throws -> [UInt8]? { try from.map { try hex.bytes($0, "--from") } }
  func upper(_ hex: HexOption) throws -> [UInt8]? { try to.map { try hex.bytes($0, "--to") } }
}
