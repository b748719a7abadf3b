import Varve
import VarveEngine
import VarveInspection

/// Imports the rows of a table as objects of a collection, in commits of `batchCount` rows.
///
/// A row whose values do not fit is refused and reported, and the other rows are written. A row whose key exists is
/// replaced, so an interrupted import can be repeated.
struct TableImport {
  /// The collection and the form that the rows are imported into.
  struct Terms {
    var collection: String
    /// Whether a missing collection is created.
    var creates = false
    /// The raw value of the version of the objects' format, or `nil` if rows have no version.
    var version: String?
    /// The number of rows in a commit.
    var batchCount = 1_000
  }

  struct Result: Encodable {
    var rows: UInt64 = 0
    var refused: UInt64 = 0
    /// The extensions whose code is not part of the tool: they are stale from the first commit on.
    var stale: [String] = []
  }

  /// A row that was refused.
  struct Refusal: Error, Encodable {
    let row: Int64
    /// The column, or `nil` if the whole row is refused.
    var column: String?
    var found: String?
    /// A description of the value that the column must have, or of the error in the row.
    let expected: String

    var text: String {
      guard let column, let found else { return "row \(row): \(expected)" }
      return "row \(row), column \"\(PrintableText.text(column))\": found \(found), expected \(expected)"
    }
  }

  /// The size in bytes at which rows are committed before there are `batchCount` of them.
  private static let batchSizeMaximum = 64 << 20

  private let database: Database
  private let plan: ImportPlan
  private let terms: Terms
  /// The import, created with the first row, whose key determines the key type if the collection is missing.
  private var rowImport: RowImport?
  private var rows: [PreparedRow] = []
  private var size = 0
  private(set) var result = Result()

  init(_ database: Database, _ plan: ImportPlan, _ terms: Terms) {
    self.database = database
    self.plan = plan
    self.terms = terms
  }

  /// Imports all rows, and passes each row that is not imported to `refused`.
  ///
  /// Throws if no row can be imported.
  mutating func run(
    _ source: inout some TableSource, refused: (Refusal) -> Void, progress: (Int) -> Void = { _ in }
  ) throws {
    var position = 0
    while let row = try source.next() {
      position += 1
      progress(position)
      do {
        let prepared = try prepare(row)
        rows.append(prepared)
        size += prepared.size
      } catch let refusal as Refusal {
        result.refused += 1
        refused(refusal)
        continue
      }
      if rows.count >= terms.batchCount || size >= Self.batchSizeMaximum { try commit() }
    }
    try commit()
  }

  private mutating func prepare(_ row: TableRow) throws -> PreparedRow {
    let (object, key) = try plan.values(of: row)
    let rowImport = try rowImport(for: key)
    do {
      let fields = zip(plan.fields, object).map { (name: $0.name, value: $1) }
      let value = try PortableValue(fields: fields, version: terms.version)
      return try rowImport.prepare(PortableRow(key: try key.key(), object: value))
    } catch let error as DatabaseError where error.isOfRow {
      throw Refusal(row: row.number, expected: error.message)
    }
  }

  /// Returns the import. Throws if the collection is missing and is not to be created, or if its rows are of another
  /// coder.
  private mutating func rowImport(for key: FieldValue) throws -> RowImport {
    if let rowImport { return rowImport }
    guard let keyType = plan.key.type.keyType ?? key.keyType else {
      throw ToolError(.usage, "the column \"\(plan.key.column)\" can't be a key")
    }
    let made = try existing() ?? create(keyType)
    rowImport = made
    return made
  }

  /// Returns an import into the existing collection, or `nil` if it is missing and may be created.
  private func existing() throws -> RowImport? {
    do {
      let found = try RowImport(into: terms.collection, of: database, as: nil)
      let coder = found.coder
      guard coder == .binary else {
        throw ToolError(
          .cannotOpen,
          "the objects of the collection \"\(terms.collection)\" are of the coder \(coder), and an import makes those of "
            + "the coder binary")
      }
      return found
    } catch let error as DatabaseError where error.code == .notFound && terms.creates {
      return nil
    }
  }

  private func create(_ keyType: KeyType) throws -> RowImport {
    try RowImport(
      into: terms.collection, of: database, as: PortableCollection(keyType: keyType.name, coder: .binary))
  }

  private mutating func commit() throws {
    guard !rows.isEmpty, let rowImport else { return }
    try rowImport.commit(rows, label: "varve import")
    result.rows += UInt64(rows.count)
    // The tool registers no extensions, so every extension on disk has missed these rows.
    result.stale = database.knownExtensions
    rows.removeAll(keepingCapacity: true)
    size = 0
  }
}

extension ImportPlan {
  /// Returns the fields of a row, where `nil` is an absent field, and its key.
  ///
  /// Throws a `TableImport.Refusal` if a value is not of its type.
  func values(of row: TableRow) throws -> (fields: [FieldValue?], key: FieldValue) {
    var values: [FieldValue?] = []
    var keyValue: FieldValue?
    for field in fields {
      let found = row.values[field.position]
      func refusal(_ expected: String) -> TableImport.Refusal {
        TableImport.Refusal(row: row.number, column: field.column, found: found.found, expected: expected)
      }
      if found == .null {
        guard field != key else { throw refusal("a key") }
        values.append(nil)
        continue
      }
      guard let value = field.type.field(found) else { throw refusal(field.type.expected) }
      if field == key { keyValue = value }
      values.append(value)
    }
    guard let keyValue else {
      throw TableImport.Refusal(row: row.number, expected: "it has no key")
    }
    return (values, keyValue)
  }
}

extension DatabaseError {
  /// Whether the error concerns only this row. A key type that differs from the collection's concerns all rows.
  fileprivate var isOfRow: Bool {
    switch code {
    case .invalidKey, .keyTooLong, .valueTooLong, .encodingFailed: true
    default: false
    }
  }
}
