import Testing

/// Checks the layering of each module: its folders are layers, and no folder names a type of a higher layer.
///
/// Files at the root belong to the lowest layer.
struct LayeringTests {
  /// The layers of a module from the lowest to the highest. Folders of one layer may not name each other's types.
  private typealias Layers = [[String]]

  /// The layers of `Sources/VarveEngine`. The platform is built on the errors and views of the lowest layer.
  private static let engineLayers: Layers = [
    ["", "Bytes", "Keys"],
    ["Platform"],
    ["Observation"],
    ["WriteBatch", "RangeTombstones", "MergeOperators"],
    ["WriteAheadLog", "MemTable", "Cache"],
    ["SSTable"],
    ["Version"],
    ["Iterators"],
    ["Compaction"],
    ["Families"],
    ["Commit"],
    ["Cursors"],
    ["Background"],
    ["Statistics"],
    ["Inbox"],
    ["Engine"],
    ["Transactions"],
    ["Opening"],
    ["Follow"],
    ["Repair"],
    ["Upkeep"],
    ["Async"],
  ]

  /// The layers of `Sources/Varve`. Everything in `Core` is one layer, whose folders may name each other because they
  /// are mutually recursive: a transaction runs hooks, and hooks write through the transaction.
  private static let objectLayers: Layers = [
    ["", "Keys", "Coders"],
    ["Conditions"],
    ["Backend"],
    ["Core"],
    ["Builds", "Observation"],
    ["Indexes"],
    ["Database"],
    ["Connections"],
    ["Stores"],
    ["Queries"],
  ]

  /// The layers of `Sources/VarveRelationships`. `Graph` is one layer for the same reason as `Core`: its transaction
  /// applies rules, and rules change rows through it.
  private static let relationshipLayers: Layers = [["Edges"], ["Format"], ["Log"], ["Graph"]]

  /// The layers of `Sources/VarveTasks`.
  private static let taskLayers: Layers = [
    ["States"], ["Values"], ["Cron"], ["Format"], ["Timers"], ["Dispatch"], ["Storage"], ["Inbox"], ["Scheduler"],
  ]

  /// The layers of `Sources/VarveViews`.
  private static let viewLayers: Layers = [["Lists"], ["Views", "Live"]]

  /// The modules that have layers.
  private static var modules: [(name: String, files: [SourceFile], layers: Layers)] {
    [
      ("Varve", Repository.objectFiles, objectLayers), ("VarveEngine", Repository.engineFiles, engineLayers),
      ("VarveRelationships", Repository.relationshipFiles, relationshipLayers),
      ("VarveTasks", Repository.taskFiles, taskLayers), ("VarveViews", Repository.viewFiles, viewLayers),
    ]
  }

  /// The greatest number of files in a folder, before it must be divided.
  private static let folderFilesMaximum = 20

  private static let modulesAllowed: Set<Substring> = [
    "Synchronization", "Glibc", "Musl", "Darwin", "CVarve", "CLZ4", "CZstd", "FutexLocks",
  ]

  @Test(arguments: ["Varve", "VarveEngine", "VarveRelationships", "VarveTasks", "VarveViews"])
  func `no folder names a type of a higher layer`(module: String) throws {
    let (_, files, layers) = try #require(Self.modules.first { $0.name == module })
    #expect(files.count > 20, "\(module) was not found at \(Repository.root)")
    let violations = Self.upwardNames(files, layers)
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test(arguments: ["Varve", "VarveEngine", "VarveRelationships", "VarveTasks", "VarveViews"])
  func `every folder has its layer`(module: String) throws {
    let (_, files, layers) = try #require(Self.modules.first { $0.name == module })
    let folders = Set(files.map { String(Self.folder($0)) })
    #expect(folders == Set(layers.joined()))
  }

  @Test(arguments: ["Varve", "VarveEngine", "VarveRelationships", "VarveTasks", "VarveViews"])
  func `no folder has more files than the maximum`(module: String) throws {
    let (_, files, _) = try #require(Self.modules.first { $0.name == module })
    let folders = Dictionary(grouping: files) { file in
      file.path.split(separator: "/").dropLast().joined(separator: "/")
    }
    let full = folders.filter { $0.value.count > Self.folderFilesMaximum }.map { "\($0.key): \($0.value.count) files" }
    #expect(full.isEmpty, "\(full.sorted().joined(separator: "\n"))")
  }

  @Test func `the engine imports the standard library, the system and its C modules only`() {
    let violations = Repository.engineFiles.flatMap { Self.foreignImports($0) }
    #expect(violations.isEmpty, "\(violations.report)")
  }

  /// The modules that the object layer may import.
  private static let modulesOfObjects: Set<Substring> = [
    "Synchronization", "Foundation", "Dispatch", "Logging", "CVarve", "FutexLocks", "VarveEngine", "UnicodeNormalForm",
    "Glibc", "Musl", "Darwin", "Observation", "Combine",
  ]

  /// The only files of the object layer that may name the engine: the storage API, the code that opens it, options that
  /// belong to the engine, and what the engine knows of the system.
  private static let engineUsers: Set<String> = [
    "Backend/EngineBackend.swift", "Backend/EngineWriting.swift", "Backend/EngineIngestion.swift",
    "Backend/StorageBackend.swift", "Backend/AppendedIndex.swift", "Backend/EndingIfCancelled.swift",
    "Database/Opening/BackendOpening.swift",
    "Database/DatabaseReplacement.swift", "Database/Opening/DiskOpening.swift", "Database/Database.swift",
    "Core/Catalog/CollectionStorage.swift", "Core/DatabaseOptions.swift",
    "Database/ObjectSalvage.swift", "Database/Database+Damage.swift", "Observation/DirectoryChanges.swift",
  ]

  @Test func `the object layer reaches the engine through its storage API alone, and by public names`() {
    let files = Repository.objectFiles
    #expect(files.count > 20, "the object layer was not found at \(Repository.root)")
    let foreign = files.flatMap { Self.foreignImports($0, allowed: Self.modulesOfObjects) }
    let direct = files.filter { file in
      !Self.engineUsers.contains { file.path.hasSuffix("/" + $0) }
        && SwiftCode.stripped(file.text).contains("import VarveEngine")
    }
    let violations = foreign + direct.map { Violation(path: $0.path, line: 1, message: "imports the engine directly") }
    #expect(violations.isEmpty, "\(violations.report)")
    #expect(!files.contains { $0.text.contains("@testable") })
  }

  @Test func `relationships, views and tasks use public names of the object layer, and those for extensions, alone`() {
    let files = Repository.relationshipFiles
    let allowed: Set<Substring> = ["Foundation", "Synchronization", "Logging", "UnicodeNormalForm", "Varve"]
    let violations = files.flatMap { Self.foreignImports($0, allowed: allowed) }
    #expect(violations.isEmpty, "\(violations.report)")
    // The task layer also uses a lock for short critical sections, and calls of the system for the files of its inbox.
    let system: Set<Substring> = ["FutexLocks", "Glibc", "Musl", "Darwin"]
    let others = Repository.taskFiles.flatMap { Self.foreignImports($0, allowed: allowed.union(system)) }
    let views = Repository.viewFiles.flatMap {
      Self.foreignImports($0, allowed: ["Varve", "Synchronization", "FutexLocks", "Observation"])
    }
    #expect(views.isEmpty, "\(views.report)")
    let queues = Repository.files(in: ["Sources/VarveTaskQueue"], ["swift"])
    let foreign = queues.flatMap { Self.foreignImports($0, allowed: ["Varve", "VarveTasks", "Synchronization"]) }
    #expect(others.isEmpty && !queues.isEmpty && foreign.isEmpty, "\(others.report)\(foreign.report)")
    #expect(
      !(files + Repository.taskFiles + Repository.viewFiles).contains {
        $0.text.contains("@testable") || SwiftCode.stripped($0.text).contains("package ")
      })
  }

  @Test func `the inspection module imports the object layer alone, and the normal form module imports nothing`() {
    let inspection = Repository.files(in: ["Sources/VarveInspection"], ["swift"])
    let normalForm = Repository.files(in: ["Sources/UnicodeNormalForm"], ["swift"])
    #expect(!inspection.isEmpty && !normalForm.isEmpty)
    let violations =
      inspection.flatMap { Self.foreignImports($0, allowed: ["Foundation", "Varve"]) }
      + normalForm.flatMap { Self.foreignImports($0, allowed: []) }
    #expect(violations.isEmpty, "\(violations.report)")
  }

  @Test func `a lower folder that names a higher type is found`() {
    let files = [
      Self.file("Engine/Engine.swift", "public final class Engine {}\nprivate struct Part {}\n"),
      Self.file("Bytes/View.swift", "struct View {\n  // Engine\n  let engine: Engine\n  let part: Part\n}\n"),
    ]
    #expect(Self.upwardNames(files, Self.engineLayers).map(\.line) == [3])
  }

  @Test func `folders of one layer that name each other are found`() {
    let files = [
      Self.file("Cache/BlockCache.swift", "struct BlockCache { let table: MemTable }\n"),
      Self.file("MemTable/MemTable.swift", "struct MemTable {}\n"),
      Self.file("SSTable/Table.swift", "struct Table { let cache: BlockCache; let table: MemTable }\n"),
    ]
    #expect(Self.upwardNames(files, Self.engineLayers).map(\.path) == ["Sources/VarveEngine/Cache/BlockCache.swift"])
  }

  @Test func `a name that a lower folder declares itself is its own`() {
    let files = [
      Self.file("Families/Options.swift", "struct Options {}\n"),
      Self.file("Cache/Cache.swift", "struct Cache {\n  struct Options {}\n  let options: Options\n}\n"),
    ]
    #expect(Self.upwardNames(files, Self.engineLayers).isEmpty)
  }

  @Test func `a foreign import is found in each of its forms`() {
    let text = "import Synchronization\ninternal import Glibc\n@testable import Foundation\npublic import struct A.B\n"
    #expect(Self.foreignImports(Self.file("A.swift", text)).map(\.line) == [3, 4])
  }

  // MARK: - The rules

  private static func file(_ path: String, _ text: String) -> SourceFile {
    SourceFile(path: "Sources/VarveEngine/" + path, text: text)
  }

  /// Returns the first folder below that of the module; empty for a file at its root.
  private static func folder(_ file: SourceFile) -> Substring {
    let parts = file.path.split(separator: "/")
    return parts.count > 3 ? parts[2] : ""
  }

  private static func upwardNames(_ files: [SourceFile], _ layers: Layers) -> [Violation] {
    func layer(of folder: Substring) -> Int? { layers.firstIndex { $0.contains(String(folder)) } }
    let sources = files.map { (file: $0, folder: folder($0), code: SwiftCode.stripped($0.text)) }
    // A name that two folders declare belongs to the lower one.
    var owners: [String: Substring] = [:]
    for source in sources {
      for name in SwiftCode.topLevelTypes(source.code) {
        let known = owners[name].flatMap { layer(of: $0) }
        if let known, known <= layer(of: source.folder) ?? 0 { continue }
        owners[name] = source.folder
      }
    }
    return sources.flatMap { source -> [Violation] in
      let own = Set(SwiftCode.nestedTypes(source.code))
      return SwiftCode.words(source.code).compactMap { word, line in
        guard let owner = owners[String(word)], owner != source.folder, !own.contains(String(word)),
          let above = layer(of: owner), let here = layer(of: source.folder), above > 0, above >= here
        else { return nil }
        return Violation(
          path: source.file.path, line: line, message: "\(word) is of \(owner), which is not a lower layer")
      }
    }
  }

  private static func foreignImports(
    _ file: SourceFile, allowed: Set<Substring> = modulesAllowed
  ) -> [Violation] {
    let lines = SwiftCode.stripped(file.text).split(separator: "\n", omittingEmptySubsequences: false)
    return lines.enumerated().compactMap { index, line in
      let words = line.split { !($0.isLetter || $0.isNumber || $0 == "_") }
      guard let location = words.firstIndex(of: "import"), location + 1 < words.count else { return nil }
      let modifiers: Set<Substring> = [
        "public", "internal", "package", "private", "fileprivate", "testable", "_exported", "_spi", "Extensions",
      ]
      guard words[..<location].allSatisfy({ modifiers.contains($0) }) else { return nil }
      let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "typealias", "func", "let", "var"]
      let module =
        kinds.contains(words[location + 1]) && location + 2 < words.count ? words[location + 2] : words[location + 1]
      guard !allowed.contains(module) else { return nil }
      return Violation(path: file.path, line: index + 1, message: "\(module) is not imported here")
    }
  }
}
