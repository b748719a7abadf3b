/// Which columns of a table become which fields of objects.
///
/// # What is not said on the command line
/// - A column is a field of its name, as it is stored; declared with a type that has BOOL in its name, a Boolean; declared
///   DATE, DATETIME or TIMESTAMP, a date as text, which is what GRDB and SQLite's functions write.
/// - A table of Core Data, which has the columns Z_PK, Z_ENT and Z_OPT, is known by them. Its columns lose their Z and
///   become small letters, as their capitals are not kept; Z_ENT and Z_OPT are left out, and so is Z_PK where it is not the
///   key, which is called `id` otherwise; TIMESTAMP is seconds since 2001.
struct ImportPlan {
  struct Field: Hashable {
    /// The position of the column.
    let position: Int
    let column: String
    let name: String
    let type: FieldType
  }

  /// What is said on the command line, each as `COLUMN=WORD` or `COLUMN`.
  struct Wishes {
    var key: String
    var types: [String] = []
    var names: [String] = []
    var omitted: [String] = []
  }

  /// In the order of the columns; never empty.
  let fields: [Field]
  /// One of them.
  let key: Field
  let isCoreData: Bool

  /// Throws a usage error that names the column, and what there is.
  init(_ columns: [TableColumn], _ wishes: Wishes) throws {
    let table = Columns(list: columns)
    isCoreData = ["Z_PK", "Z_ENT", "Z_OPT"].allSatisfy { name in columns.contains { $0.name == name } }
    let keyPosition = try table.position(wishes.key, "--key")
    var types: [Int: FieldType] = [:]
    for wish in wishes.types {
      let (position, word) = try table.pair(wish, "--field")
      guard let type = FieldType(rawValue: word) else {
        let known = FieldType.allCases.map(\.rawValue).joined(separator: ", ")
        throw ToolError(.usage, "--field \(wish): \"\(word)\" is not a type of fields; there are \(known)")
      }
      guard types.updateValue(type, forKey: position) == nil else { throw Columns.twice(wish, "--field") }
    }
    var names: [Int: String] = [:]
    for wish in wishes.names {
      let (position, name) = try table.pair(wish, "--rename")
      guard names.updateValue(name, forKey: position) == nil else { throw Columns.twice(wish, "--rename") }
    }
    let omitted = Set(try wishes.omitted.map { try table.position($0, "--omit") })
    var fields: [Field] = []
    for (position, column) in columns.enumerated() {
      let isNamed = position == keyPosition || types[position] != nil || names[position] != nil
      if omitted.contains(position) || (!isNamed && isCoreData && Self.isOfCoreData(column)) { continue }
      fields.append(
        Field(
          position: position, column: column.name, name: names[position] ?? Self.name(of: column, isCoreData),
          type: types[position] ?? Self.type(of: column, isCoreData)))
    }
    guard let key = fields.first(where: { $0.position == keyPosition }) else {
      throw ToolError(.usage, "--omit \(wishes.key): the key is a field too, and can't be left out")
    }
    guard key.type != .json else {
      throw ToolError(.usage, "--field \(key.column)=json: the key of a row can't be an array or a map")
    }
    try Self.checkNames(fields)
    self.fields = fields
    self.key = key
  }

  private static func checkNames(_ fields: [Field]) throws {
    var columns: [String: String] = [:]
    for field in fields {
      if field.name.isEmpty { throw ToolError(.usage, "the field of column \"\(field.column)\" has no name") }
      if let other = columns.updateValue(field.column, forKey: field.name) {
        throw ToolError(
          .usage,
          "the columns \"\(other)\" and \"\(field.column)\" would both be the field \"\(field.name)\"; "
            + "use --rename or --omit")
      }
    }
  }

  /// Whether a column is one of those that Core Data keeps for itself.
  private static func isOfCoreData(_ column: TableColumn) -> Bool { column.name.hasPrefix("Z_") }

  private static func name(of column: TableColumn, _ isCoreData: Bool) -> String {
    guard isCoreData else { return column.name }
    if column.name == "Z_PK" { return "id" }
    return column.name.hasPrefix("Z") ? column.name.dropFirst().lowercased() : column.name
  }

  private static func type(of column: TableColumn, _ isCoreData: Bool) -> FieldType {
    let declared = column.declared.uppercased()
    if declared.contains("BOOL") { return .bool }
    switch declared {
    case "TIMESTAMP" where isCoreData: return .date2001
    case "DATE", "DATETIME", "TIMESTAMP": return .iso8601
    default: return .stored
    }
  }
}

/// The columns of a table by their names, which SQLite compares without regard to the case of letters.
private struct Columns {
  let list: [TableColumn]

  func position(_ name: String, _ option: String) throws -> Int {
    if let exact = list.firstIndex(where: { $0.name == name }) { return exact }
    if let other = list.firstIndex(where: { $0.name.lowercased() == name.lowercased() }) { return other }
    let known = list.map { "\"\($0.name)\"" }.joined(separator: ", ")
    throw ToolError(.usage, "\(option) \(name): the table has no such column; it has \(known)")
  }

  /// `COLUMN=WORD`. A name of a column may have the sign itself; a word may not.
  func pair(_ text: String, _ option: String) throws -> (position: Int, word: String) {
    guard let sign = text.lastIndex(of: "="), sign != text.startIndex, text.index(after: sign) != text.endIndex else {
      throw ToolError(.usage, "\(option) \(text): it has to be like COLUMN=\(option == "--field" ? "TYPE" : "NAME")")
    }
    return (try position(String(text[..<sign]), option), String(text[text.index(after: sign)...]))
  }

  static func twice(_ wish: String, _ option: String) -> ToolError {
    ToolError(.usage, "\(option) \(wish): the column is named twice")
  }
}
