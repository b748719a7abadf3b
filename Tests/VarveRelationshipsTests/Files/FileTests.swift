import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures
@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of files that are removed with rows.
struct FileTests {
  /// A directory with a database and a root, and the reports about its files.
  private final class Site: Sendable {
    let directory: TemporaryDirectory
    let reports = Mutex<[String]>([])
    private let isReported = DispatchSemaphore(value: 0)
    var root: String { directory.path + "/files" }

    init() throws {
      directory = try TemporaryDirectory()
      try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    }

    func graph(
      roots: [FileRoot]? = nil, allowsFilesAnywhere: Bool = false, counting: Relationships.Counting = .allNames
    ) -> ExtensionHandle<Relationships> {
      let roots = roots ?? [FileRoot("files", at: root)]
      return Relationships(counting: counting, roots: roots, allowsFilesAnywhere: allowsFilesAnywhere) {
        [self] report in
        reports.withLock { $0.append("\(report)") }
        isReported.signal()
      }.named("graph")
    }

    func open(_ graph: ExtensionHandle<Relationships>) throws -> GraphCase {
      let database = try Database.open(at: directory.path + "/db", definition: GraphCase.definition(graph))
      return GraphCase(database, graph)
    }

    func make(_ name: String, _ content: String = "content") throws {
      try Data(content.utf8).write(to: URL(fileURLWithPath: "\(root)/\(name)"))
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: "\(root)/\(name)") }

    /// Waits until `count` files were reported since the last call, and returns the reports.
    func waitForReports(_ count: Int = 1) -> [String] {
      for _ in 0..<count { isReported.wait() }
      return reports.withLock { reports in
        defer { reports = [] }
        return reports.sorted()
      }
    }

    /// Discards the reports up to the close of the database: a file that cannot be removed is reported by each
    /// removal.
    func clear() {
      while isReported.wait(timeout: .now()) == .success {}
      reports.withLock { $0 = [] }
    }

    var trash: [String] {
      FileLocations.trash(of: root).flatMap { (try? FileManager.default.contentsOfDirectory(atPath: $0)) ?? [] }
    }
  }

  private static func write(_ graph: GraphCase, _ lines: String...) throws {
    try graph.database.write { tx in
      var steps = GraphSteps(graph: graph.graph, lines: lines)
      try steps.run(tx)
    }
  }

  /// Defers the removal of files while `body` runs.
  private static func holding(_ graph: GraphCase, _ body: () throws -> Void) throws {
    let shared = try graph.database.read { tx in try tx[graph.graph].context.shared }
    shared.locations.hold()
    defer {
      shared.locations.release()
      shared.removeFiles()
    }
    try body()
  }

  @Test(arguments: ["8", "32"]) func `a file is removed with the row that owns it, after the commit`(rule: String)
    throws
  {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(graph, "set a1 flag>files:flag.png=\(rule)")
    try Self.holding(graph) {
      try Self.write(graph, "remove a1")
      #expect(site.exists("flag.png"))
    }
    #expect(site.waitForReports() == ["file \"flag.png\" of root \"files\" was removed"])
    #expect(!site.exists("flag.png"))
    try graph.database.close()
    #expect(site.trash.isEmpty)
  }

  @Test(arguments: ["8", "32"]) func `a file with edges from two rows is kept until the second row is removed`(
    rule: String
  ) throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try site.make("other.png")
    try Self.write(
      graph, "set a1 flag>files:flag.png=\(rule)", "set a2 picture>files:flag.png", "set a3 x>files:other.png=8")
    try Self.write(graph, "remove a1")
    // A later file has been removed, so the first one was checked.
    try Self.write(graph, "remove a3")
    #expect(site.waitForReports() == ["file \"other.png\" of root \"files\" was removed"])
    #expect(site.exists("flag.png"))
    // The last edge has no rule, so the file is not removed because of it.
    try Self.write(graph, "set a2 picture>files:flag.png=\(rule)")
    try Self.write(graph, "remove a2")
    #expect(site.waitForReports() == ["file \"flag.png\" of root \"files\" was removed"])
    try graph.database.close()
  }

  @Test func `a file is removed if all rows with edges to it are removed in one transaction, even by later rules`()
    throws
  {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(
      graph, "set a1 flag>files:flag.png=8", "set a2 flag>files:flag.png", "set b1 owner>a2=4", "set a3 x>b1=8")
    // The row a2 has no rule for the file, and is removed in a later wave than a1.
    try Self.write(graph, "set c1 x>a2=8")
    try Self.write(graph, "remove c1", "remove a1")
    #expect(site.waitForReports() == ["file \"flag.png\" of root \"files\" was removed"])
    try graph.database.close()
  }

  @Test func `a file is stored by root name and relative path, and removed from the root's current directory`()
    throws
  {
    let site = try Site()
    try site.make("flag.png")
    let graph = try site.open(site.graph())
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    try graph.database.close()
    // The program's directory moves, as that of an app does with an update; another file is at the old path.
    let moved = site.directory.path + "/moved"
    try FileManager.default.moveItem(atPath: site.root, toPath: moved)
    try FileManager.default.createDirectory(atPath: site.root, withIntermediateDirectories: true)
    try site.make("flag.png")
    let again = try site.open(site.graph(roots: [FileRoot("files", at: moved)]))
    #expect(try again.content() == ["a1 flag>files:flag.png"])
    try Self.write(again, "remove a1")
    #expect(site.waitForReports() == ["file \"flag.png\" of root \"files\" was removed"])
    #expect(!FileManager.default.fileExists(atPath: moved + "/flag.png") && site.exists("flag.png"))
    try again.database.close()
  }

  @Test func `an edge to a missing file is stored, and removing it records no file to remove`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try Self.write(graph, "set a1 flag>files:missing.png=8")
    #expect(try graph.content() == ["a1 flag>files:missing.png"])
    try Self.write(graph, "remove a1")
    #expect(try graph.database.read { tx in try tx[graph.graph].files.count() } == 0)
    try graph.database.close()
  }

  @Test func `a file to which a later commit adds an edge again is kept`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try site.make("other.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8", "set a2 x>files:other.png=8")
    try Self.holding(graph) {
      try Self.write(graph, "remove a1", "remove a2")
      try Self.write(graph, "set a3 flag>files:flag.png=8")
      #expect(try graph.database.read { tx in try tx[graph.graph].files.count() } == 1)
    }
    #expect(site.waitForReports() == ["file \"other.png\" of root \"files\" was removed"])
    try graph.database.close()
    #expect(site.exists("flag.png"))
  }

  @Test func `a file that was replaced after the removal of its last edge is kept, and reported`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    try Self.holding(graph) {
      try Self.write(graph, "remove a1")
      try FileManager.default.removeItem(atPath: site.root + "/flag.png")
      try site.make("flag.png", "another")
    }
    #expect(
      site.waitForReports() == [
        "file \"flag.png\" of root \"files\" stays: it is not known to be the one that it was when its last edge was removed"
      ])
    #expect(site.exists("flag.png"))
    try graph.database.close()
    // No work is left.
    let again = try site.open(site.graph())
    #expect(try again.database.read { tx in try tx[again.graph].files.count() } == 0)
    try again.database.close()
  }

  @Test func `files that an undone savepoint or a failed transaction would remove are kept`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try site.make("other.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8", "set a2 x>files:other.png=8")
    try Self.write(graph, "save", "remove a1", "flush", "undo")
    struct Stop: Error {}
    #expect(throws: Stop.self) {
      try graph.database.write { tx in
        try tx.remove(Thing.row("a1"))
        try tx[graph.graph].flush()
        throw Stop()
      }
    }
    try Self.write(graph, "remove a2")
    #expect(site.waitForReports() == ["file \"other.png\" of root \"files\" was removed"])
    #expect(site.exists("flag.png"))
    try graph.database.close()
  }

  @Test func `a file whose root was missing when its last edge was removed is kept and reported at the next open`()
    throws
  {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    // A process without the root cannot remove the file.
    try graph.database.close()
    let without = try site.open(site.graph(roots: [FileRoot("files", at: site.root + "/nowhere")]))
    try Self.write(without, "remove a1")
    #expect(
      Set(site.waitForReports()) == [
        "file \"flag.png\" of root \"files\" stays: its root is not there, or not declared"
      ])
    try without.database.close()
    site.clear()
    // The engine cannot determine which file it was, so the file stays and is reported.
    let again = try site.open(site.graph())
    #expect(
      site.waitForReports() == [
        "file \"flag.png\" of root \"files\" stays: it is not known to be the one that it was when its last edge was removed"
      ])
    try again.database.close()
  }

  /// A crash is simulated after each step: the result of the next open must be the same.
  @Test(arguments: FileRemoval.Step.allCases)
  func `a removal of a file that a crash interrupts is completed at the next open`(
    step: FileRemoval.Step
  ) throws {
    struct Crash: Error {}
    let site = try Site()
    let isCut = DispatchSemaphore(value: 0)
    let steps = Mutex(0)
    var crashing = site.graph().definition
    crashing.removalStep = { current in
      // The removal at the open comes first, and finds no files.
      guard current == step, steps.withLock({ $0 }) > 0 else { return }
      isCut.signal()
      throw Crash()
    }
    let graph = try site.open(crashing.named("graph"))
    for name in ["gone.png", "kept.png", "shared.png"] { try site.make(name) }
    try Self.write(
      graph, "set a1 x>files:gone.png=8 y>files:shared.png=32", "set a2 x>files:kept.png=8 y>files:shared.png=32")
    try graph.database.close()
    let again = try site.open(crashing.named("graph"))
    steps.withLock { $0 = 1 }
    try Self.write(again, "remove a1")
    isCut.wait()
    // Simulates the death of the process and a loss of power: no state of the removal is left in memory.
    try again.database.close()
    if step == .read || step == .synced { #expect(site.exists("gone.png")) }
    let last = try site.open(site.graph())
    // The removal at the open is complete once that of this file is.
    try site.make("last.png")
    try Self.write(last, "set a3 x>files:last.png=8")
    try Self.write(last, "remove a3")
    while !site.waitForReports().contains(where: { $0.contains("last.png") }) {}
    try last.database.close()
    #expect(!site.exists("gone.png") && site.exists("kept.png") && site.exists("shared.png"))
    #expect(site.trash.isEmpty)
  }

  @Test func `files that a crash left in the trash are removed after the next open`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    try graph.database.close()
    let trash = FileLocations.trash(of: site.root)[0]
    try FileManager.default.createDirectory(atPath: trash, withIntermediateDirectories: true)
    try Data("left".utf8).write(to: URL(fileURLWithPath: trash + "/1"))
    let again = try site.open(site.graph())
    try Self.write(again, "remove a1")
    _ = site.waitForReports()
    try again.database.close()
    #expect(!FileManager.default.fileExists(atPath: trash))
  }

  @Test func `the trash is inside the root if it can't be created next to it`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    // A file is at the path of the trash directory.
    try Data().write(to: URL(fileURLWithPath: FileLocations.trash(of: site.root)[0]))
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    try Self.write(graph, "remove a1")
    #expect(site.waitForReports() == ["file \"flag.png\" of root \"files\" was removed"])
    try graph.database.close()
    #expect(!site.exists("flag.png") && !site.exists(".varve-trash"))
  }

  @Test func `an edge to a file refuses every rule except those that delete the file`() throws {
    for rule: DeleteRules in [
      .notifyIfSourceDeleted, .notifyIfDestinationDeleted, .deleteSourceIfDestinationDeleted,
      .deleteSourceIfAllDestinationsDeleted,
    ] {
      #expect(throws: DatabaseError.self) {
        try RelationshipEdge("flag", to: .file(root: "files", path: "flag.png"), rule)
      }
    }
  }

  @Test(arguments: ["../db", "a/../../db", "/etc/passwd", "", "a//b", "./a", "a\0b"])
  func `a path that may leave its root is refused`(path: String) throws {
    #expect(throws: DatabaseError.self) { try RelationshipEdge("flag", to: .file(root: "files", path: path)) }
  }

  @Test func `a path through a link is refused, and a file is kept if its directory later becomes a link`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    let outside = site.directory.path + "/outside"
    try FileManager.default.createDirectory(atPath: outside, withIntermediateDirectories: true)
    try Data("mine".utf8).write(to: URL(fileURLWithPath: outside + "/kept.txt"))
    try FileManager.default.createSymbolicLink(atPath: site.root + "/link", withDestinationPath: outside)
    #expect(throws: DatabaseError.self) { try Self.write(graph, "set a1 x>files:link/kept.txt=8") }
    // The directory becomes a link after the edge was made.
    try FileManager.default.createDirectory(atPath: site.root + "/folder", withIntermediateDirectories: true)
    try site.make("folder/kept.txt")
    try Self.write(graph, "set a1 x>files:folder/kept.txt=8")
    try Self.holding(graph) {
      try Self.write(graph, "remove a1")
      try FileManager.default.removeItem(atPath: site.root + "/folder")
      try FileManager.default.createSymbolicLink(atPath: site.root + "/folder", withDestinationPath: outside)
    }
    #expect(site.waitForReports() == ["file \"folder/kept.txt\" of root \"files\" stays: there is a link on its path"])
    #expect(FileManager.default.fileExists(atPath: outside + "/kept.txt"))
    try graph.database.close()
    for link in ["link", "folder"] { try FileManager.default.removeItem(atPath: site.root + "/" + link) }
  }

  @Test func `removing a symbolic link does not remove its target`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("target.txt")
    try FileManager.default.createSymbolicLink(
      atPath: site.root + "/link.txt", withDestinationPath: site.root + "/target.txt")
    try Self.write(graph, "set a1 x>files:link.txt=8")
    try Self.write(graph, "remove a1")
    #expect(site.waitForReports() == ["file \"link.txt\" of root \"files\" was removed"])
    #expect(site.exists("target.txt"))
    try graph.database.close()
  }

  @Test func `a path through a link within the root is refused, and so is a root inside another root`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try FileManager.default.createDirectory(atPath: site.root + "/sub", withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: site.root + "/alias", withDestinationPath: site.root + "/sub")
    #expect(throws: DatabaseError.self) { try Self.write(graph, "set a1 x>files:alias/c=8") }
    try FileManager.default.removeItem(atPath: site.root + "/alias")
    try graph.database.close()
    let nested = site.graph(roots: [FileRoot("files", at: site.root), FileRoot("sub", at: site.root + "/sub")])
    #expect(throws: DatabaseError.self) { try site.open(nested) }
  }

  @Test func `a path with a component of more than 255 bytes is refused`() throws {
    #expect(throws: DatabaseError.self) {
      try RelationshipEdge("x", to: .file(root: "files", path: "a/" + String(repeating: "p", count: 256)))
    }
  }

  @Test func `a backup may be made in the callback that reports files, and in a write`() throws {
    let site = try Site()
    let database = Mutex<(Database, ExtensionHandle<Relationships>)?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    let failures = Mutex<[String]>([])
    let path = site.directory.path
    let graph = Relationships(roots: [FileRoot("files", at: site.root)]) { _ in
      if let (database, graph) = database.withLock({ $0 }) {
        do { try database.backup(to: path + "/reported", files: graph) } catch {
          failures.withLock { $0.append("\(error)") }
        }
      }
      isDone.signal()
    }.named("graph")
    let opened = try site.open(graph)
    database.withLock { $0 = (opened.database, graph) }
    for name in ["one.txt", "two.txt"] { try site.make(name) }
    try Self.write(opened, "set a1 x>files:one.txt=8", "set a2 x>files:two.txt=8")
    try Self.write(opened, "remove a1")
    isDone.wait()
    try opened.database.write { tx in
      try opened.database.backup(to: path + "/inside", files: graph)
    }
    #expect(failures.withLock { $0 } == [])
    #expect(FileManager.default.fileExists(atPath: path + "/inside/files/files/two.txt"))
    database.withLock { $0 = nil }
    try opened.database.close()
  }

  @Test func `an edge to an undeclared root is refused, and so is an absolute path unless the graph allows it`() throws
  {
    let site = try Site()
    let graph = try site.open(site.graph())
    #expect(throws: DatabaseError.self) { try Self.write(graph, "set a1 x>others:flag.png=8") }
    let anywhere = site.directory.path + "/elsewhere.txt"
    #expect(throws: DatabaseError.self) { try Self.write(graph, "set a1 x>:\(anywhere)=8") }
    try graph.database.close()
    let allowing = try site.open(site.graph(allowsFilesAnywhere: true))
    try Data("mine".utf8).write(to: URL(fileURLWithPath: anywhere))
    try Self.write(allowing, "set a1 x>:\(anywhere)=8")
    #expect(
      try allowing.database.read { tx in
        try tx[allowing.graph].count(EdgeQuery(to: .file(at: URL(fileURLWithPath: anywhere))))
      } == 1)
    try Self.write(allowing, "remove a1")
    #expect(site.waitForReports() == ["file \"\(anywhere)\" was removed"])
    try allowing.database.close()
  }

  @Test func `the names of roots must be unique and not empty`() throws {
    for names in [[""], ["a", "a"]] {
      let graph = Relationships(roots: names.map { FileRoot($0, at: "/tmp") }).named("graph")
      #expect(throws: DatabaseError.self) { try Database.inMemory(definition: DatabaseDefinition { graph }) }
    }
  }

  @Test func `two domains can't have the same root, or a root inside that of the other`() throws {
    let site = try Site()
    try FileManager.default.createDirectory(atPath: site.root + "/in", withIntermediateDirectories: true)
    try FileManager.default.createDirectory(atPath: site.directory.path + "/beside", withIntermediateDirectories: true)
    for (path, isRefused) in [(site.root, true), (site.root + "/in", true), (site.directory.path + "/beside", false)] {
      let error = errorCode {
        _ = try Database.inMemory {
          Relationships(roots: [FileRoot("a", at: site.root)]).named("graph")
          Relationships(domain: "other", roots: [FileRoot("b", at: path)]).named("other")
        }
      }
      #expect((error == .invalidDefinition) == isRefused, "\(path)")
    }
  }

  @Test func `files of undeclared roots are reported, even if no root is declared`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    try site.make("flag.png")
    try Self.write(graph, "set a1 flag>files:flag.png=8")
    try graph.database.close()
    let stays = "file \"flag.png\" of root \"files\" stays: its root is not there, or not declared"
    let without = try site.open(site.graph(roots: []))
    try Self.write(without, "remove a1")
    #expect(site.waitForReports().contains(stays))
    try without.database.close()
    site.clear()
    let again = try site.open(site.graph(roots: []))
    #expect(site.waitForReports() == [stays])
    try again.database.close()
  }

  @Test func `a backup contains the files that its edges lead to`() throws {
    let site = try Site()
    let graph = try site.open(site.graph())
    for name in ["one.txt", "two.txt"] { try site.make(name, name) }
    try FileManager.default.createDirectory(atPath: site.root + "/deep/er", withIntermediateDirectories: true)
    try site.make("deep/er/three.txt", "three")
    try site.make("unrelated.txt")
    try Self.write(
      graph, "set a1 x>files:one.txt=8 y>files:deep/er/three.txt=8", "set a2 x>files:one.txt=8 z>files:missing.txt=8")
    try graph.database.write { tx in
      try tx[graph.graph].add(
        RelationshipEdge("w", to: .file(root: "files", path: "two.txt")), from: Thing.row("a1"))
    }
    let copy = site.directory.path + "/copy"
    try graph.database.backup(to: copy, files: graph.graph)
    let found = try FileManager.default.subpathsOfDirectory(atPath: copy + "/files/files").filter {
      $0.hasSuffix(".txt")
    }
    #expect(found.sorted() == ["deep/er/three.txt", "one.txt", "two.txt"])
    #expect(throws: DatabaseError.self) { try graph.database.backup(to: copy, files: graph.graph) }
    try graph.database.close()
  }
}
