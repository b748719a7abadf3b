import Foundation
import Testing

/// Holds the number of public names of each module that no guide mentions.
///
/// A name that stands in no guide is one that a program finds by chance. It is documented, internal, or `@_spi` if only
/// modules of the package need it.
struct PublicNamesTests {
  /// The number of names of each module. A number only becomes smaller: the change that documents a name or makes it
  /// internal lowers it.
  private static let counts = [
    "Varve": 179, "VarveEngine": 197, "VarveInspection": 25, "VarveRelationships": 22, "VarveTaskQueue": 0,
    "VarveTasks": 40, "VarveTasksService": 0, "VarveTesting": 17, "VarveViews": 0,
  ]

  /// Names that the standard library requires of a conformance, or calls by itself.
  private static let required: Set<Substring> = [
    "AsyncIterator", "Element", "Failure", "ID", "Index", "Iterator", "RawValue", "StringLiteralType",
    "buildArray", "buildBlock", "buildEither", "buildExpression", "buildFinalResult", "buildLimitedAvailability",
    "buildOptional", "buildPartialBlock", "callAsFunction", "codingKey", "debugDescription", "description",
    "encode", "endIndex", "errorDescription", "hash", "id", "makeAsyncIterator", "makeIterator", "next",
    "projectedValue",
    "rawValue", "startIndex", "underestimatedCount", "wrappedValue",
  ]

  @Test(arguments: counts.keys.sorted())
  func `the public names that no guide mentions have the recorded number`(module: String) throws {
    let files = Repository.files(in: ["Sources/" + module], ["swift"])
    #expect(!files.isEmpty && Self.guides.count > 20, "\(module) or the guides were not found at \(Repository.root)")
    let names = Self.names(files).subtracting(Self.mentioned).sorted()
    let count = try #require(Self.counts[module])
    #expect(names.count <= count, "\(names.count) public names are in no guide, and \(count) were before: \(names)")
    #expect(names.count >= count, "fewer public names are in no guide: lower the number to \(names.count)")
  }

  @Test func `every module with public names is counted`() {
    let modules = Set(Repository.files(in: ["Sources"], ["swift"]).map { $0.path.split(separator: "/")[1] })
    let named = modules.filter { !Self.names(Repository.files(in: ["Sources/" + $0], ["swift"])).isEmpty }
    // The modules below the engine are no products.
    let inner: Set<Substring> = ["FutexLocks", "UnicodeNormalForm"]
    #expect(Set(Self.counts.keys.map { Substring($0) }) == named.subtracting(inner))
  }

  @Test func `a public declaration is found by its name, unless it is SPI or required`() {
    let text = """
      public struct A<Value> {
        public internal(set) var b = 1
        @discardableResult public static func c() -> Int { 1 }
        @_spi(Extensions) public var d: Int { 1 }
        @_spi(Testing)
        public func e() {}
        public func makeIterator() {}
        public init(f: Int) {}
        func g() {}
        // public var h
      }
      """
    #expect(Self.names([SourceFile(path: "A.swift", text: text)]) == ["A", "b", "c"])
  }

  // MARK: - The rule

  /// The articles for users: all but those about the development.
  private static let guides: [SourceFile] = {
    let documents = Repository.files(in: ["Sources"], ["md"]).filter { file in
      !["/Development/", "/Decisions/", "/Architecture.md"].contains { file.path.contains($0) }
    }
    return documents + [Repository.file("README.md")].compactMap { $0 }
  }()

  private static let mentioned = Set(guides.flatMap { SwiftCode.words($0.text).map(\.text) })

  /// Returns the names of public declarations.
  private static func names(_ files: [SourceFile]) -> Set<Substring> {
    var names: Set<Substring> = []
    for file in files {
      var isHidden = false
      for line in SwiftCode.stripped(file.text).split(separator: "\n") {
        let isSPI = line.contains("@_spi(")
        defer { isHidden = isSPI && !line.contains("public ") }
        if isSPI || isHidden { continue }
        if let name = name(of: line), !required.contains(name) { names.insert(name) }
      }
    }
    return names
  }

  /// Returns the name of the public declaration of a line, or `nil` if there is none, or it has no name.
  private static func name(of line: Substring) -> Substring? {
    let words = SwiftCode.words(String(line)).map(\.text)
    guard let access = words.firstIndex(where: { $0 == "public" || $0 == "open" }) else { return nil }
    let rest = words[(access + 1)...].drop { modifiers.contains($0) }
    guard let kind = rest.first, kinds.contains(kind), let name = rest.dropFirst().first else { return nil }
    // The word after the name of an operator is a parameter.
    return line.contains("\(kind) \(name)") || line.contains("\(kind) `\(name)") ? name : nil
  }

  private static let modifiers: Set<Substring> = [
    "static", "final", "mutating", "nonmutating", "internal", "private", "fileprivate", "package", "set", "nonisolated",
    "unsafe", "convenience", "required", "override", "indirect", "consuming", "borrowing", "prefix", "infix",
  ]

  private static let kinds: Set<Substring> = [
    "func", "var", "let", "struct", "class", "enum", "protocol", "typealias", "actor", "macro", "associatedtype",
  ]
}
