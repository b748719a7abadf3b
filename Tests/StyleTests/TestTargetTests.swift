import Testing

/// Checks that suites of damage are in the modules that also run against a plain release build: the module decides,
/// and not a name.
struct TestTargetTests {
  /// Returns the modules that `tools/test` runs a second time.
  private static func damageTargets(_ script: SourceFile) -> Set<Substring> {
    guard let line = script.lines.first(where: { $0.hasPrefix("damage_targets='") }) else { return [] }
    return Set(line.dropFirst("damage_targets='".count).prefix { $0 != "'" }.split(separator: " "))
  }

  /// Returns the suites of damage in a module that runs only with checks. `folders` are those of the modules that run
  /// twice.
  private static func misplaced(_ file: SourceFile, outside folders: [String]) -> [Violation] {
    guard !folders.contains(where: { file.path.hasPrefix($0 + "/") }) else { return [] }
    return file.lines.enumerated().compactMap { index, line in
      let words = line.split(separator: " ")
      guard let location = words.firstIndex(where: { ["struct", "class", "extension", "enum"].contains($0) }),
        let name = words[(location + 1)...].first, name.hasSuffix("DamageTests")
      else { return nil }
      let message = "\(name) stands in none of the modules that tools/test runs against plain release"
      return Violation(path: file.path, line: index + 1, message: message)
    }
  }

  /// Returns the folder of a test module: it is in Tests, except for those of the fuzzers.
  private static func folder(_ target: Substring) -> String {
    target == "VarveEngineFuzzTests" ? "Fuzz/Tests" : "Tests/\(target)"
  }

  @Test func `every suite of damage is in a module that is also tested in a plain release build`() throws {
    let script = try #require(Repository.file("tools/test"))
    let folders = Self.damageTargets(script).map(Self.folder)
    #expect(folders.count >= 2, "tools/test has no line damage_targets='…'")
    let files = Repository.files(in: ["Tests", "Fuzz"], ["swift"])
    for folder in folders {
      #expect(files.contains { $0.path.hasPrefix(folder + "/") }, "\(folder) has no file")
    }
    let violations = files.flatMap { Self.misplaced($0, outside: folders) }
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `a suite of damage in another module is found`() {
    let text = "import Testing\n@Suite struct Log\("Damage")Tests {\n}\n"
    let file = SourceFile(path: "Tests/VarveEngineTests/A.swift", text: text)
    #expect(Self.misplaced(file, outside: ["Tests/VarveEngineDamageTests"]).map(\.line) == [2])
    #expect(Self.misplaced(file, outside: ["Tests/VarveEngineTests"]).isEmpty)
  }
}
