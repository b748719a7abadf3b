import Varve
import VarveEngine
import VarveInspection

/// Loads lines of rows through the rows API in commits of about a mebibyte.
struct ObjectLoad {
  struct Result: Encodable {
    var rows: UInt64 = 0
    var bytes: UInt64 = 0
    /// The extensions whose code is not part of the tool: they are stale from the first commit on.
    var stale: [String] = []
  }

  /// Large enough that commits cost little, small enough to need little memory.
  private static let batchSizeMaximum = 1 << 20
  private static let batchCountMaximum = 10_000
  private let database: Database
  private let name: String
  private var lines: RowLines
  private var rowImport: RowImport?
  private var terms: PortableCollection?
  private var coder = CoderName.raw
  private var rows: [PreparedRow] = []
  private var size = 0
  private(set) var result = Result()

  init(_ database: Database, _ name: String, _ lines: RowLines) {
    self.database = database
    self.name = name
    self.lines = lines
  }

  mutating func run(progress: (UInt64, UInt64) -> Void) throws {
    while let line = try lines.next() {
      let row = try prepare(line)
      rows.append(row)
      size += row.size
      if size >= Self.batchSizeMaximum || rows.count >= Self.batchCountMaximum {
        try commit()
        progress(lines.source.position, result.rows)
      }
    }
    try commit()
    result.bytes = lines.source.position
  }

  private mutating func prepare(_ line: RowLine) throws -> PreparedRow {
    do {
      let rowImport = try rowImport(for: line.collection)
      let row = try rowImport.prepare(try line.row(coder))
      try line.check(row)
      return row
    } catch let error as RecordError {
      throw lines.error(error.message)
    } catch let error as DatabaseError where !(error.cause is EngineError) {
      throw lines.error("\(error)")
    }
  }

  /// Returns the import for a line's collection.
  ///
  /// Each line states its collection: the first one creates it, and all others have to agree with it.
  private mutating func rowImport(for terms: PortableCollection?) throws -> RowImport {
    if let rowImport, terms == nil || terms == self.terms { return rowImport }
    let made = try RowImport(into: name, of: database, as: terms)
    rowImport = made
    self.terms = terms ?? self.terms
    coder = made.coder
    return made
  }

  private mutating func commit() throws {
    guard !rows.isEmpty, let rowImport else { return }
    try rowImport.commit(rows, label: "varve load")
    result.rows += UInt64(rows.count)
    // The tool registers no extensions, so every extension on disk has missed these rows.
    result.stale = database.knownExtensions
    rows.removeAll(keepingCapacity: true)
    size = 0
  }
}

/// Reads the lines of a source as rows. Its errors name the line.
struct RowLines {
  let source: ByteSource
  private let file: String
  private var number = 0
  /// The first line, which was read before the database was changed.
  private var first: RowLine?

  /// Opens the file and reads the first row. Throws if that is not a row; the database has not been changed yet then.
  init(_ file: String) throws {
    self.file = file
    source = try ByteSource(file)
    first = try next()
  }

  mutating func next() throws -> RowLine? {
    if let line = first {
      first = nil
      return line
    }
    while let bytes = try source.nextLine() {
      number += 1
      if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }) { continue }
      do {
        return try RowLine(bytes)
      } catch {
        throw self.error(error.message)
      }
    }
    return nil
  }

  /// Returns the error for the line that was read last.
  func error(_ message: String) -> ToolError { ToolError(.cannotOpen, "line \(number): \(message)", file: file) }
}
