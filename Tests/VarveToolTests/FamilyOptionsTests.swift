import Foundation
import Testing
import Varve
import VarveEngine

/// Tests of the options of families, which an export has and a load restores.
struct FamilyOptionsTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  /// An operator that the tool does not know.
  private struct LastWins: MergeOperator {
    let name = "example.last"
    func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
      if input.operandCount > 0 { value.append(input.operand(input.operandCount - 1)) }
      return true
    }
  }

  private static var options: EngineOptions {
    var options = EngineOptions()
    options.mergeOperators = [LastWins()]
    options.defaultFamilyOptions = FamilyOptions(compression: .zstd, mergeOperator: "varve.append")
    return options
  }

  private static let familyOptions = [
    "totals": FamilyOptions(compression: .zstd, mergeOperator: "varve.counter", memtableSize: 1 << 20),
    "last": FamilyOptions(mergeOperator: "example.last"), "packed": FamilyOptions(compression: CompressionKind.none),
    "plain": FamilyOptions(),
  ]

  /// Makes a database with a family of each kind, and one without entries.
  private func make() throws {
    let engine = try Engine.open(at: database, options: Self.options)
    for (name, options) in Self.familyOptions {
      try engine.put(Array("a".utf8), CounterOperator.bytes(1), in: try engine.createFamily(name, options: options))
    }
    try engine.put(Array("first".utf8), [1])
    try engine.put(Array("second".utf8), [2])
    _ = try engine.createFamily("empty", options: FamilyOptions(mergeOperator: "varve.max"))
    try engine.close()
  }

  private func load(_ text: String, _ arguments: [String] = ["--create"]) throws -> Tool.Result {
    try Tool.run(["load", database, try directory.file("entries", text)] + arguments)
  }

  @Test(arguments: [[String](), ["--binary"]])
  func `a family that load makes has the options of the one that was exported`(form: [String]) throws {
    try make()
    let file = directory.path + "/exported"
    let export = try Tool.run(["export", database, file] + form)
    #expect(export.status == 0 && export.errors.contains("\"empty\" has no entry"), "\(export)")
    #expect(export.errors.contains("mergeOperator varve.max"), "\(export)")
    let copy = directory.path + "/copy"
    let result = try Tool.run(["load", copy, file, "--create"] + form)
    #expect(result.status == 0 && result.errors.isEmpty, "\(result)")
    #expect(try Tool.good(["export", copy, "-"]) == Tool.good(["export", database, "-"]))

    let engine = try Engine.open(at: copy, options: Self.options)
    #expect(engine.defaultFamily.options == Self.options.defaultFamilyOptions)
    #expect(engine.families.count == Self.familyOptions.count + 1)
    for (name, options) in Self.familyOptions {
      let family = try engine.family(named: name)
      #expect(family.options == options, "\(name)")
      guard options.mergeOperator != nil else { continue }
      try engine.merge(Array("a".utf8), CounterOperator.bytes(2), in: family)
    }
    let totals = try engine.get(Array("a".utf8), in: engine.family(named: "totals"))
    #expect(totals.flatMap(CounterOperator.number) == 3)
    #expect(try engine.get(Array("a".utf8), in: engine.family(named: "last")) == CounterOperator.bytes(2))
    try engine.close()
  }

  @Test func `options are in the first line of a family, beside its key and value`() throws {
    try make()
    let rows = try Tool.objects(["export", database, "-"])
    #expect(rows.count == 6 && rows.allSatisfy { $0["key"] is String })
    let options = rows.compactMap { $0["familyOptions"] as? [String: Any] }
    #expect(options.count == 4)
    let totals = rows.first { $0["family"] as? String == "totals" }?["familyOptions"] as? [String: Any]
    #expect(totals?["compression"] as? String == "zstd" && totals?["mergeOperator"] as? String == "varve.counter")
    #expect(totals?["memtableSize"] as? Int == 1 << 20 && totals?.count == 3)
  }

  @Test func `a load continues an input whose options came before it stopped, also one of standard input`() throws {
    try make()
    let whole = try Tool.good(["export", database, "-"])
    let (file, copy) = (try directory.file("entries", whole + "broken\n"), directory.path + "/copy")
    #expect(try Tool.run(["load", copy, file, "--create"]).status == 3)
    _ = try directory.file("entries", whole)
    #expect(try Tool.run(["load", copy, file, "--create", "--resume"]).errors.isEmpty)
    #expect(try Tool.good(["export", copy, "-"]) == whole)
    let shell = Process()
    shell.executableURL = URL(fileURLWithPath: "/bin/sh")
    let piped = directory.path + "/piped"
    shell.arguments = ["-c", "\"$0\" load \"$1\" - --create < \"$2\"", Tool.built("varve").path, piped, file]
    shell.standardOutput = FileHandle.nullDevice
    try shell.run()
    shell.waitUntilExit()
    #expect(try shell.terminationStatus == 0 && Tool.good(["export", piped, "-"]) == whole)
  }

  @Test(arguments: [[String](), ["--binary"]])
  func `an export with options resumes from any byte at which it was interrupted`(form: [String]) throws {
    try make()
    let file = directory.path + "/resumed"
    try Tool.good(["export", database, file] + form)
    let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    try FileManager.default.removeItem(atPath: file)
    for size in stride(from: 0, through: bytes.count, by: 5) {
      // An export that cannot finish, because a directory has its name, leaves the same files as an interrupted one.
      try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
      #expect(try Tool.run(["export", database, file] + form).status == 3)
      try FileManager.default.removeItem(atPath: file)
      try bytes.prefix(size).write(to: URL(fileURLWithPath: file + ".partial"))
      try Tool.good(["export", database, file, "--resume"] + form)
      #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == bytes, "interrupted at \(size)")
      try FileManager.default.removeItem(atPath: file)
    }
  }

  @Test func `a family that is there keeps its options, and the difference is reported`() throws {
    try Tool.good(["put", database, "a", "1", "--family", "f", "--create"])
    let result = try load(
      "{\"family\":\"f\",\"familyOptions\":{\"mergeOperator\":\"varve.max\"},\"key\":\"b\",\"value\":\"\"}")
    #expect(result.status == 0, "\(result)")
    #expect(result.errors.contains("\"f\" was there and keeps its options: the defaults"), "\(result)")
    #expect(result.errors.contains("mergeOperator varve.max"), "\(result)")
    #expect(try Tool.good(["scan", database, "--family", "f"]) == "a\t1\nb\t\n")
  }

  @Test func `options that are not known are left out, and reported`() throws {
    let options = "{\"compression\":\"brotli\",\"mergeOperator\":\"varve.max\",\"tint\":{\"a\":1}}"
    let result = try load("{\"family\":\"f\",\"familyOptions\":\(options),\"key\":\"a\",\"value\":\"\"}")
    #expect(result.status == 0 && result.errors.contains("left out: compression brotli, tint\n"), "\(result)")
    let family = try #require(try families().first { $0["name"] as? String == "f" })
    #expect(family["options"] as? [String: String] == ["mergeOperator": "varve.max"])
  }

  @Test(arguments: [
    ("7", 3), ("{\"memtableSize\":1}", 2), ("{\"memtableSize\":\"1\"}", 3), ("{\"isVolatile\":1}", 3),
    ("{\"mergeOperator\":\"\"}", 2), ("{\"mergeOperator\":\"\(String(repeating: "o", count: 256))\"}", 2),
    ("{\"compression\":1}", 3),
  ])
  func `options that are not valid are an error, for the default family and for others`(text: String, status: Int)
    throws
  {
    for family in ["", "\"family\":\"f\","] {
      let result = try load("{\(family)\"familyOptions\":\(text),\"key\":\"a\",\"value\":\"\"}")
      #expect(Int(result.status) == status && !result.errors.isEmpty, "\(result)")
    }
  }

  private func families() throws -> [[String: Any]] {
    try #require(try Tool.objects(["info", database, "--json"]).first?["families"] as? [[String: Any]])
  }

  @Test func `info shows the options of families that are not the defaults`() throws {
    try make()
    let text = try Tool.good(["info", database])
    #expect(
      text.contains("; mergeOperator varve.counter, compression zstd, memtableSize 1048576\n"), "\(text)")
    #expect(text.contains("family \"plain\", id ") && !text.contains("the defaults"), "\(text)")
    let found = try families()
    #expect(found.first { $0["name"] as? String == "plain" }?["options"] == nil)
    let packed = found.first { $0["name"] as? String == "packed" }?["options"] as? [String: String]
    #expect(packed == ["compression": "none"])
  }

  @Test func `a collection that load makes has the compression of the one that was exported`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("sizes", ObjectFixture.Size.self, key: String.self, storage: .own(compression: .zstd))
    }
    try ObjectFixture.with(database, definition) { database in
      try database.write { tx in try tx.set(ObjectFixture.Size(pages: 1), key: "a", in: "sizes") }
    }
    let file = directory.path + "/rows"
    try Tool.good(["export", database, file, "--collection", "sizes"])
    let row = try #require(try Tool.objects(["export", database, "-", "--collection", "sizes"]).first)
    #expect(row["storage"] as? String == "own" && row["compression"] as? String == "zstd", "\(row)")
    let copy = directory.path + "/copy"
    try Tool.good(["load", copy, file, "--collection", "sizes", "--create"])
    let engine = try Engine.open(at: copy)
    #expect(engine.families.filter { $0.options.compression == .zstd }.count == 2)
    try engine.close()
    // A collection that is there keeps its own.
    _ = try directory.file("rows", try String(contentsOfFile: file, encoding: .utf8).replacing("zstd", with: "lz4"))
    try Tool.good(["load", copy, file, "--collection", "sizes"])
    _ = try directory.file("rows", try String(contentsOfFile: file, encoding: .utf8).replacing("lz4", with: "zip"))
    let unknown = try Tool.run(["load", copy, file, "--collection", "sizes"])
    #expect(unknown.status == 3 && unknown.errors.contains("no compression is named \"zip\""), "\(unknown)")
  }
}
