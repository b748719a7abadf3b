import ArgumentParser
import Varve
import VarveInspection

/// Imports rows from other databases.
struct ImportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Make objects of the rows of another database.",
    discussion: """
      Example: varve import sqlite /data/example.varve app.sqlite note --into notes --key id
      """,
    subcommands: [ImportSQLiteCommand.self]
  )
}

/// Imports a table of SQLite as a collection.
struct ImportSQLiteCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sqlite",
    abstract: "Make objects of the rows of a table of SQLite.",
    discussion: """
      Each row becomes an object that the Codable type of the program decodes, and that a store of the collection loads: a \
      column is the field of its name, NULL is a field that is not there, and the column of --key is also the key of the \
      row. The program needs nothing but its format, with the type of the column as its identifier.

      A column is taken as it is stored: an integer, a number, a text or bytes. --field COLUMN=TYPE says otherwise:
        int, double, bool, text, data
        uuid       a text, or 16 bytes
        date1970   seconds since 1970, as time_t and timeIntervalSince1970
        date2001   seconds since 2001, as timeIntervalSinceReferenceDate and Core Data
        iso8601    a text like 2026-02-03 04:05:06.789, in UTC where it says no zone
        json       a text in JSON: an array, a dictionary, or a value with fields
      Without it, a column that is declared BOOLEAN is bool, and one that is declared DATE, DATETIME or TIMESTAMP is \
      iso8601. --rename COLUMN=NAME gives the field another name, --omit COLUMN leaves it out.

      A table of Core Data is known by its columns Z_PK, Z_ENT and Z_OPT. Then ZNAME is the field name in small letters \
      (--rename ZFIRSTNAME=firstName gives capitals back), Z_ENT and Z_OPT are left out, Z_PK is the field id where it is \
      the key and left out otherwise, and TIMESTAMP is date2001. Booleans and UUIDs are not declared there: use --field.

      A row with a value of another kind is refused: a line on standard error says row, column, what was found and what \
      was expected; the other rows are imported, and the exit status is 1. Rows are written --batch at a time, through \
      the same calls as those of a program; a row with a key that is there is replaced, so an import that was interrupted \
      is done again. Indexes and other extensions, whose code isn't in the tool, catch up when the program opens the database.

      The command needs the package trait SQLite: swift build -c release --product varve --traits SQLite, with \
      libsqlite3-dev.

      Example: varve import sqlite /data/example.varve app.sqlite note --into notes --key id --create --field body=json
      Example: varve import sqlite /data/example.varve Model.sqlite ZNOTE --into notes --key ZID --field ZID=uuid \
      --rename ZCREATEDAT=createdAt
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The file of SQLite.", completion: .file()) var file: String
  @Argument(help: "The table, or the view.") var table: String
  @Option(help: "The collection.") var into: String
  @Option(help: ArgumentHelp("The column whose value is the key of a row.", valueName: "column")) var key: String
  @Option(help: ArgumentHelp("What a column becomes; may be there several times.", valueName: "column=type"))
  var field: [String] = []
  @Option(help: ArgumentHelp("The name of a column's field; may be there several times.", valueName: "column=name"))
  var rename: [String] = []
  @Option(help: ArgumentHelp("A column that is left out; may be there several times.", valueName: "column"))
  var omit: [String] = []
  @Option(help: "The raw value of the version of the format that the objects are of; without it the format's first.")
  var formatVersion: String?
  @Option(help: "How many rows a commit has.") var batch = 1_000
  @Flag(help: "Make the database and the collection where they are missing.") var create = false
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard (1...1_000_000).contains(batch) else {
      throw ValidationError("--batch is a count of rows from 1 to 1000000: it is \(batch)")
    }
  }

  func run() throws {
    #if SQLite
      // The file is opened first, so that no database is created if it can't be read.
      var source = try SQLiteTable(file, table)
      let plan = try plan(for: source)
      try source.requireUnique(plan.key)
      if !create { try database.inspecting { _ = try $0.collection(into) } }
      let result = try database.writingObjects(create: create) { objects in
        try importRows(of: &source, plan, into: objects)
      }
      try report(result, plan)
      if result.refused > 0 { throw ExitStatus.answerIsNo.asError }
    #else
      throw ToolError(
        .usage,
        "this varve was built without SQLite; install libsqlite3-dev, and build it with "
          + "swift build -c release --product varve --traits SQLite")
    #endif
  }

  func plan(for source: some TableSource) throws -> ImportPlan {
    try ImportPlan(
      source.columns, ImportPlan.Options(key: key, types: field, names: rename, omitted: omit))
  }

  func importRows(
    of source: inout some TableSource, _ plan: ImportPlan, into objects: Database
  ) throws -> TableImport.Result {
    let terms = TableImport.Terms(
      collection: into, creates: create, version: formatVersion, batchCount: batch)
    var work = TableImport(objects, plan, terms)
    let refusals = RefusalPrinter(asJSON: output.json)
    let total = source.rowCount
    var bar = ProgressBar("import", isQuiet: output.json)
    defer { bar.end() }
    try work.run(&source, refused: refusals.print) { bar.show(rows: $0, of: total) }
    refusals.finish()
    return work.result
  }

  private func report(_ result: TableImport.Result, _ plan: ImportPlan) throws {
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(result)
    } else {
      for field in plan.fields {
        let type = field.type == .stored ? "" : ", \(field.type.rawValue)"
        let text = "column \"\(field.column)\": field \"\(field.name)\"\(type)\(field == plan.key ? ", the key" : "")"
        try sink.writeLine(PrintableText.text(text))
      }
      try sink.writeLine(
        "imported \(Count.text(result.rows, "row")) into \"\(into)\"\(result.refused > 0 ? ", refused \(result.refused)" : "")"
      )
      for name in result.stale {
        try sink.writeLine("extension \"\(name)\" is stale until the program opens the database")
      }
    }
    try sink.finish()
  }
}

/// Prints refused rows on standard error, one line each.
private final class RefusalPrinter {
  /// The maximum number of printed rows: a table of which every row is refused has one mistake, not a million.
  private static let shownMaximum = 100
  private let asJSON: Bool
  private var count = 0

  init(asJSON: Bool) { self.asJSON = asJSON }

  func print(_ refusal: TableImport.Refusal) {
    count += 1
    guard count <= Self.shownMaximum else { return }
    StandardError.write(asJSON ? JSONText.line(["refused": refusal]) + "\n" : "varve: refused: \(refusal.text)\n")
  }

  func finish() {
    guard count > Self.shownMaximum, !asJSON else { return }
    StandardError.write("varve: refused: \(count - Self.shownMaximum) more rows\n")
  }
}
