/// The plan that maps the columns of a table to the fields of objects.
///
/// # Defaults
/// - A column becomes a field with its name and its stored type. If the declared type contains BOOL, the field is a
///   Boolean; if it is DATE, DATETIME or TIMESTAMP, the field is a date as text, which is what GRDB and SQLite's
///   functions write.
/// - A table of Core Data is recognized by the columns Z_PK, Z_ENT and Z_OPT. Its columns lose their Z and become lower
///   case, as their capital letters are not kept. Z_ENT and Z_OPT are left out, and so is Z_PK unless it is the key,
///   which is then called `id`. TIMESTAMP means seconds since 2001.
struct ImportPlan {
  struct Field: Hashable {
    /// The index of the column in the table.
    let position: Int
    let column: String
    let name: String
    let type: FieldType
  }

  /// The options of the command line, each as `COLUMN=WORD` or `COLUMN`.
  struct Options {
    var key: String
    var types: [String] = []
    var names: [String] = []
    var omitted: [String] = []
  }

  /// The fields in the order of the columns; never empty.
  let fields: [Field]
  /// The field of the key, which is one of `fields`.
  let key: Field
  let isCoreData: Bool

  /// Creates a plan. Throws a usage error that names the column and the existing columns or types.
  init(_ columns: [TableColumn], _ options: Options) throws {
    let table = Columns(list: columns)
    isCoreData = ["Z_PK", "Z_ENT", "Z_OPT"].allSatisfy { name in columns.contains { $0.name == name } }
    let keyPosition = try table.position(options.key, "--key")
    var types: [Int: FieldType] = [:]
    for argument in options.types {
      let (position, word) = try table.pair(argument, "--field")
      guard let type = FieldType(rawValue: word) else {
        let known = FieldType.allCases.map(\.rawValue).joined(separator: ", ")
        throw ToolError(.usage, "--field \(argument): \"\(word)\" is not a type of fields; there are \(known)")
      }
      guard types.updateValue(type, forKey: position) == nil else { throw Columns.twice(argument, "--field") }
    }
    var names: [Int: String] = [:]
    for argument in options.names {
      let (position, name) = try table.pair(argument, "--rename")
      guard names.updateValue(name, forKey: position) == nil else { throw Columns.twice(argument, "--rename") }
    }
    let omitted = Set(try options.omitted.map { try table.position($0, "--omit") })
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
      throw ToolError(.usage, "--omit \(options.key): the key is a field too, and can't be left out")
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

  /// Returns whether a column is one that Core Data uses internally.
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

/// Finds the columns of a table by their names, which SQLite compares without regard to case.
private struct Columns {
  let list: [TableColumn]

  func position(_ name: String, _ option: String) throws -> Int {
    if let exact = list.firstIndex(where: { $0.name == name }) { return exact }
    if let other = list.firstIndex(where: { $0.name.lowercased() == name.lowercased() }) { return other }
    let known = list.map { "\"\($0.name)\"" }.joined(separator: ", ")
    throw ToolError(.usage, "\(option) \(name): the table has no such column; it has \(known)")
  }

  /// Parses `COLUMN=WORD`. The name of a column may contain the equals sign, but the word may not.
  func pair(_ text: String, _ option: String) throws -> (position: Int, word: String) {
    guard let sign = text.lastIndex(of: "="), sign != text.startIndex, text.index(after: sign) != text.endIndex else {
      throw ToolError(.usage, "\(option) \(text): it has to be like COLUMN=\(option == "--field" ? "TYPE" : "NAME")")
    }
    return (try position(String(text[..<sign]), option), String(text[text.index(after: sign)...]))
  }

  static func twice(_ argument: String, _ option: String) -> ToolError {
    ToolError(.usage, "\(option) \(argument): the column is named twice")
  }
}
