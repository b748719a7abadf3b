import Varve
import VarveEngine
import VarveInspection

/// The rows of a table as objects of a collection, in commits of so many rows.
///
/// A row whose values do not fit is refused and named, and the others are written. A row with a key that is there is
/// replaced, so an import that was interrupted is done again.
struct TableImport {
  /// What the rows become.
  struct Terms {
    var collection: String
    /// Whether a collection that is missing is made.
    var creates = false
    /// The raw value of the version of the format that the objects are of; nil: rows say none.
    var version: String?
    /// How many rows a commit has.
    var batchCount = 1_000
  }

  struct Result: Encodable {
    var rows: UInt64 = 0
    var refused: UInt64 = 0
    /// The extensions whose code isn't in the tool: what they keep is stale from the first commit on.
    var stale: [String] = []
  }

  /// A row that was refused.
  struct Refusal: Error, Encodable {
    let row: Int64
    /// Nil where it is about all of the row.
    var column: String?
    var found: String?
    /// What the column has to have, or what is wrong with the row.
    let expected: String

    var text: String {
      guard let column, let found else { return "row \(row): \(expected)" }
      return "row \(row), column \"\(PrintableText.text(Array(column.utf8)))\": found \(found), expected \(expected)"
    }
  }

  /// Rows of large values are committed earlier.
  private static let batchSizeMaximum = 64 << 20

  private let database: Database
  private let plan: ImportPlan
  private let terms: Terms
  /// Made with the first row, whose key says the type of keys where the collection is missing.
  private var rowImport: RowImport?
  private var rows: [PreparedRow] = []
  private var size = 0
  private(set) var result = Result()

  init(_ database: Database, _ plan: ImportPlan, _ terms: Terms) {
    self.database = database
    self.plan = plan
    self.terms = terms
  }

  /// Imports all rows. `refused` gets each row that is not imported. Throws where none can be.
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

  /// Throws where the collection is missing and is not to be made, and where its rows are of another coder.
  private mutating func rowImport(for key: FieldValue) throws -> RowImport {
    if let rowImport { return rowImport }
    guard let keyType = plan.key.type.keyType ?? key.keyType else {
      throw ToolError(.usage, "the column \"\(plan.key.column)\" can't be a key")
    }
    let made = try existing() ?? create(keyType)
    rowImport = made
    return made
  }

  /// Into the collection that is there; nil where it is missing and may be made.
  private func existing() throws -> RowImport? {
    do {
      let found = try RowImport(into: terms.collection, of: database, as: nil)
      let coder = try found.coder
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
    // The tool registers none: every one that is on disk has missed these rows.
    result.stale = database.knownExtensions
    rows.removeAll(keepingCapacity: true)
    size = 0
  }
}

extension ImportPlan {
  /// The fields of a row, nil for one that it does not have, and its key. Throws a `TableImport.Refusal` where a value is not
  /// of its type.
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
  /// Whether a row can't be stored, and others can. Keys of another type than those of the collection are so in all rows.
  fileprivate var isOfRow: Bool {
    switch code {
    case .invalidKey, .keyTooLong, .valueTooLong, .encodingFailed: true
    default: false
    }
  }
}
