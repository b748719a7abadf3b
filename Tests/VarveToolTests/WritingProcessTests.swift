import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveInspection
import VarveTasks

@testable import varve_task_target

/// Tests of readers in other processes, and of the tool, while a process writes a `Ledger`.
struct WritingProcessTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  private func target(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(Tool.built("varve-task-target").path, arguments)
  }

  /// Starts a writer, and returns it when each id of a `Ledger` has a row.
  private func startWriter() throws -> ChildProcess {
    let writer = try target("write-ledger", database)
    while let number = writer.nextNumber(), number < 2_000 {}
    return writer
  }

  @Test func `each database that readers open and commands print is that of one transaction, while processes write`()
    throws
  {
    let turns = UInt64(TestScale.count(36))
    let first = try startWriter()
    var output = LedgerOutput(database: database, directory: directory)
    for _ in 0..<TestScale.value { try output.check() }
    let reader = try target("read-ledger", database, "\(turns)")
    while let turn = reader.nextNumber(), turn + 1 < turns / 2 {}
    #expect(first.killAndWait(), "the first writer ended by itself")
    let second = try startWriter()
    for _ in 0..<TestScale.value { try output.check() }
    var last: UInt64?
    while let number = reader.nextNumber() { last = number }
    #expect(reader.succeeds())
    #expect(second.killAndWait(), "the second writer ended by itself")
    try output.check()
    print("readers were busy \(last ?? 0) times, commands \(output.busyCount) times")
  }
}

/// The output of the tool's commands for a `Ledger`. What one command prints is the content after one transaction, and
/// no earlier command has printed later content.
private struct LedgerOutput {
  let database: String
  let directory: TemporaryDirectory
  private(set) var busyCount = 0
  /// The least number of rows of each collection.
  private var rowCount = 0
  /// The least number of the last transaction.
  private var number = 0
  private var sequence = 0

  init(database: String, directory: TemporaryDirectory) {
    self.database = database
    self.directory = directory
  }

  mutating func check() throws {
    try checkCollections()
    try checkIndexes()
    try checkRows()
    try checkEdges()
    try checkTasks()
    try checkFiles()
    try checkInspector()
  }

  private mutating func checkCollections() throws {
    let rows = try objects("collections")
    #expect(rows.map { $0["name"] as? String } == ["pages", "titles"])
    try didFind(rowCounts: rows.map { $0["rows"] as? Int })
  }

  private mutating func checkIndexes() throws {
    try didFind(rowCounts: try objects("indexes").map { $0["entries"] as? Int })
    let review = try #require(try objects("indexes", rest: "--verify").first)
    #expect(review["indexes"] as? Int == 2 && review["differences"] as? Int == 0, "\(review)")
    #expect(review["rows"] as? Int == review["entries"] as? Int, "\(review)")
  }

  private mutating func checkRows() throws {
    let titles = try objects("objects", rest: "titles").map { $0["object"] as? [String: Any] ?? [:] }
    try didFind(titles)
    let exported = try Tool.lines(try output("export", rest: "-", "--collection", "titles")).map(Self.object)
    try didFind(exported.map { $0["object"] as? [String: Any] ?? [:] })
    let keys = Tool.lines(try output("objects", rest: "pages", "--keys-only")).map { Int($0) }
    try didFind(rowCounts: [keys.count])
    #expect(keys == Ledger.numbers(after: (keys.count - 99) * 20).keys.sorted())
  }

  private mutating func checkEdges() throws {
    let edges = try objects("edges")
    let sources = edges.map { ($0["source"] as? [String: Any])?["key"] as? String }
    #expect(Set(sources).count == edges.count)
    try didFind(rowCounts: [edges.count])
    #expect(try output("edges", rest: "--dangling") == "")
  }

  private mutating func checkTasks() throws {
    let tasks = try objects("tasks", "list", rest: "--queue", Ledger.queue.text)
    let numbers = tasks.map { $0["payload"] as? String }
    try didFind(taskCount: tasks.count)
    #expect(numbers == (0..<tasks.count).map { "{\"number\":\($0 * 10 + 10)}" })
    let queues = try objects("tasks", "queues")
    #expect(queues.count == 1)
    try didFind(taskCount: try #require((queues[0]["counts"] as? [String: Int])?["ready"]))
  }

  private mutating func checkFiles() throws {
    #expect(try output("verify") == "no damage found\n")
    for command in ["info", "stats"] { #expect(try objects(command).count == 1) }
    let found = try #require(try objects("info").first?["sequence"] as? Int)
    #expect(found > sequence)
    sequence = found
    #expect(try !output("dump", "manifest").isEmpty)
    let file = directory.path + "/exported"
    #expect(try output("export", rest: file, "--binary").hasPrefix("exported "))
    try FileManager.default.removeItem(atPath: file)
  }

  private mutating func checkInspector() throws {
    let inspector = try DatabaseInspector.open(at: database)
    try didFind(rowCounts: try inspector.collections { throw $0 }.map(\.rowCount))
    let indexes = try inspector.indexes { throw $0 }
    try didFind(rowCounts: try indexes.map { try inspector.entryCount(of: $0) })
    #expect(try inspector.verify(indexes).differences.isEmpty)
    try inspector.close()
  }

  // MARK: - What was found

  /// Expects one number of rows, which is not less than earlier.
  private mutating func didFind(rowCounts counts: [Int?]) throws {
    let count = try #require(counts.first ?? nil)
    #expect(counts.allSatisfy { $0 == count } && count >= rowCount, "\(counts), \(rowCount) before")
    rowCount = count
    number = max(number, (count - 99) * 20)
  }

  /// Expects all titles after a transaction that is not before earlier ones.
  private mutating func didFind(_ titles: [[String: Any]]) throws {
    let numbers = try titles.map { try (#require($0["id"] as? Int), #require($0["number"] as? Int)) }
    let last = numbers.map(\.1).max() ?? 0
    #expect(last >= number)
    #expect(Dictionary(uniqueKeysWithValues: numbers) == Ledger.numbers(after: last), "after transaction \(last)")
    try didFind(rowCounts: [numbers.count])
    number = last
  }

  private mutating func didFind(taskCount count: Int) throws {
    #expect(count >= number / 10, "\(count) tasks after transaction \(number)")
    number = max(number, count * 10)
  }

  // MARK: - Running commands

  private mutating func objects(_ command: String..., rest: String...) throws -> [[String: Any]] {
    try Tool.lines(try output(command + [database] + rest + ["--json"])).map(Self.object)
  }

  private mutating func output(_ command: String..., rest: String...) throws -> String {
    try output(command + [database] + rest)
  }

  /// Runs a command until the writer does not free segments too often for it.
  private mutating func output(_ arguments: [String]) throws -> String {
    while true {
      let result = try Tool.run(arguments)
      if result.status == 3, result.errors.contains("busy") {
        busyCount += 1
        continue
      }
      #expect(result.status == 0, "\(arguments): \(result.errors)")
      return result.output
    }
  }

  private static func object(_ line: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
  }
}
