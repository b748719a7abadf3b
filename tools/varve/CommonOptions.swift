import ArgumentParser
import Varve
import VarveEngine
import VarveInspection

/// The database that every command begins with, and how it is opened.
struct DatabaseArgument: ParsableArguments {
  @Argument(help: ArgumentHelp("The directory of the database.", valueName: "database"), completion: .directory)
  var path: String

  /// Opens without writing anything, and closes at the end of `body`.
  func reading<Result>(_ body: (Engine) throws -> Result) throws -> Result {
    var options = EngineOptions()
    options.readOnly = true
    options.raisesDescriptorLimit = true
    return try open(options, body)
  }

  /// Opens for writing, and closes at the end of `body`. Only `create` makes what is missing.
  func writing<Result>(create: Bool = false, _ body: (Engine) throws -> Result) throws -> Result {
    var options = EngineOptions()
    options.createIfMissing = create
    options.raisesDescriptorLimit = true
    return try open(options, body)
  }

  /// Opens the objects without their types, and without writing anything, and closes at the end of `body`.
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

  /// Opens the database of objects for writing, and closes at the end of `body`. Only `create` makes what is missing.
  func writingObjects<Result>(create: Bool, _ body: (Database) throws -> Result) throws -> Result {
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

/// Which column family a command is about.
struct FamilyOption: ParsableArguments {
  @Option(name: [.short, .long], help: "The column family; without it the default one.")
  var family: String?

  /// The family. Throws where there is none of that name.
  func find(in engine: Engine) throws -> ColumnFamily {
    guard let family else { return engine.defaultFamily }
    return try engine.family(named: family)
  }

  /// The family, made where it is missing and `create` allows it.
  func find(in engine: Engine, create: Bool) throws -> ColumnFamily {
    guard let family else { return engine.defaultFamily }
    return try engine.findFamily(named: family, create: create)
  }
}

extension Engine {
  /// The family with a name, made where it is missing and `create` allows it.
  func findFamily(named name: String, create: Bool) throws -> ColumnFamily {
    if let family = families.first(where: { $0.name == name }) { return family }
    guard create else { return try family(named: name) }
    switch ObjectFamily(name) {
    case nil, .values: return try createFamily(name)
    case .counters: return try createFamily(name, options: FamilyOptions(mergeOperator: CounterOperator().name))
    case .foreign:
      throw ToolError(
        .cannotOpen,
        "the family \"\(name)\" is not there, and only the code that it belongs to knows how to make it; "
          + "a whole database is copied by checkpoint")
    }
  }
}

/// The way past the rule that families of the object floor are not written to.
struct RawOption: ParsableArguments {
  @Flag(
    help: ArgumentHelp(
      "Also write to the column families of the object database, without the checks and hooks that keep them consistent.",
      discussion: """
        Those are catalog, objects, metadata, counts, feed, x.*, c.*, volatile.* and tasks.*: their rows belong \
        together, and extensions don't hear of what is written so. Rows are loaded by load --collection.
        """))
  var raw = false

  /// Throws for a family of the object floor without `--raw`.
  func check(_ family: String?) throws {
    guard let family, !raw, ObjectFamily(family) != nil else { return }
    throw ToolError(
      .usage,
      "the family \"\(family)\" belongs to the database of objects, and extensions would not hear of what is written "
        + "to it so; load rows with load --collection, or say --raw")
  }
}

/// How a command prints.
struct OutputOption: ParsableArguments {
  @Flag(help: "Print JSON, one object a line, for programs.")
  var json = false
}

/// How keys and values are written on the command line and in text output.
struct HexOption: ParsableArguments {
  @Flag(help: "Keys and values are hexadecimal digits, on the command line and in what is printed.")
  var hex = false

  /// The bytes that an argument stands for.
  func bytes(_ argument: String, _ name: String) throws -> [UInt8] {
    guard hex else { return Array(argument.utf8) }
    guard let bytes = HexText.bytes(argument) else {
      throw ToolError(.usage, "\(name) \"\(argument)\" is not an even number of hexadecimal digits")
    }
    return bytes
  }

  /// Bytes as they are printed for people.
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

  /// The bounds of a cursor.
  func bounds(_ hex: HexOption) throws -> CursorBounds {
    if let prefix { return .prefix(try hex.bytes(prefix, "--prefix")) }
    return CursorBounds(lower: try lower(hex), upper: try upper(hex))
  }

  func prefix(_ hex: HexOption) throws -> [UInt8]? { try prefix.map { try hex.bytes($0, "--prefix") } }
  func lower(_ hex: HexOption) throws -> [UInt8]? { try from.map { try hex.bytes($0, "--from") } }
  func upper(_ hex: HexOption) throws -> [UInt8]? { try to.map { try hex.bytes($0, "--to") } }
}
