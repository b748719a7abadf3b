import Testing

@testable import VarveTool

/// Tests of the mapping of columns to fields.
struct ImportPlanTests {
  private typealias Options = ImportPlan.Options

  private static let columns = [
    TableColumn(name: "id", declared: "INTEGER"), TableColumn(name: "title", declared: "TEXT"),
    TableColumn(name: "isRead", declared: "BOOLEAN"), TableColumn(name: "created", declared: "datetime"),
    TableColumn(name: "a=b", declared: ""),
  ]

  private static let coreData = [
    TableColumn(name: "Z_PK", declared: "INTEGER"), TableColumn(name: "Z_ENT", declared: "INTEGER"),
    TableColumn(name: "Z_OPT", declared: "INTEGER"), TableColumn(name: "ZFIRSTNAME", declared: "VARCHAR"),
    TableColumn(name: "ZADDED", declared: "TIMESTAMP"), TableColumn(name: "ZIDENTIFIER", declared: "BLOB"),
  ]

  private static func text(_ plan: ImportPlan) -> [String] {
    plan.fields.map { "\($0.column) \($0.name) \($0.type)" }
  }

  @Test func `columns become fields of their names, with types derived from their declarations`() throws {
    let plan = try ImportPlan(Self.columns, Options(key: "id"))
    #expect(
      Self.text(plan) == [
        "id id stored", "title title stored", "isRead isRead bool", "created created iso8601", "a=b a=b stored",
      ])
    #expect(plan.key == plan.fields[0] && !plan.isCoreData)
  }

  @Test func `types, names and omissions apply to columns regardless of case`() throws {
    let plan = try ImportPlan(
      Self.columns,
      Options(
        key: "TITLE", types: ["created=date1970", "a=b=json", "ISREAD=int"], names: ["title=id", "id=number"],
        omitted: ["isread"]))
    #expect(Self.text(plan) == ["id number stored", "title id stored", "created created date1970", "a=b a=b json"])
    #expect(plan.key.column == "title")
  }

  @Test func `internal columns of a Core Data table are omitted unless they are requested`() throws {
    let plan = try ImportPlan(Self.coreData, Options(key: "ZIDENTIFIER", types: ["ZIDENTIFIER=uuid"]))
    #expect(plan.isCoreData)
    #expect(
      Self.text(plan) == ["ZFIRSTNAME firstname stored", "ZADDED added date2001", "ZIDENTIFIER identifier uuid"])
    let byNumber = try ImportPlan(
      Self.coreData, Options(key: "Z_PK", names: ["ZFIRSTNAME=firstName", "Z_OPT=version"]))
    #expect(
      Self.text(byNumber) == [
        "Z_PK id stored", "Z_OPT version stored", "ZFIRSTNAME firstName stored", "ZADDED added date2001",
        "ZIDENTIFIER identifier stored",
      ])
  }

  @Test(arguments: [
    (Options(key: "none"), "it has \"id\", \"title\""), (Options(key: "id", types: ["none=int"]), "no such column"),
    (Options(key: "id", types: ["title=number"]), "\"number\" is not a type of fields; there are stored, int"),
    (Options(key: "id", types: ["title"]), "COLUMN=TYPE"), (Options(key: "id", names: ["title="]), "COLUMN=NAME"),
    (Options(key: "id", names: ["=title"]), "COLUMN=NAME"),
    (Options(key: "id", types: ["title=int", "TITLE=text"]), "named twice"),
    (Options(key: "id", names: ["title=a", "title=b"]), "named twice"),
    (Options(key: "id", names: ["title=id"]), "would both be the field \"id\""),
    (Options(key: "id", omitted: ["id"]), "can't be left out"),
    (Options(key: "id", types: ["id=json"]), "can't be an array"),
    (Options(key: "id", omitted: ["none"]), "no such column"),
  ])
  func `an invalid plan is a usage error that states the reason`(options: ImportPlan.Options, message: String) {
    let error = #expect(throws: ToolError.self) { try ImportPlan(Self.columns, options) }
    #expect(error?.status == .usage && error?.message.contains(message) == true, "\(error?.message ?? "")")
  }
}
