import EngineTestSupport
import Foundation
import Testing
import Varve

@_spi(Extensions) @testable import VarveTasks

/// Tests of processes that die while tasks run: they are killed, or a task ends its own process.
///
///     VARVE_TEST_SCALE=10 ./tools/test --filter TaskProcessTests   # 200 kills
@Suite(.serialized)
struct TaskProcessTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() throws { directory = try TemporaryDirectory() }

  /// Runs the target, which is killed when it has printed `lines` lines, or not at all if that is `nil`. Returns its
  /// lines, and whether it ended by itself with status 0.
  private func run(_ first: Int, _ count: Int, crashes: Int = 0, killedAfter lines: Int?) throws -> (
    lines: [String], isGood: Bool
  ) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: try ChildProcess.built("varve-task-target"))
    process.arguments = [path, "\(first)", "\(count)", "\(crashes)"]
    var environment = ProcessInfo.processInfo.environment
    environment["SWIFT_BACKTRACE"] = "enable=no"
    process.environment = environment
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = FileHandle.nullDevice
    try process.run()
    var text = Data()
    var isKilled = false
    while true {
      let data = pipe.fileHandleForReading.availableData
      if data.isEmpty { break }
      text += data
      if let lines, !isKilled, text.count(where: { $0 == 0x0A }) >= lines {
        kill(process.processIdentifier, SIGKILL)
        isKilled = true
      }
    }
    process.waitUntilExit()
    let isGood = process.terminationReason == .exit && process.terminationStatus == 0
    // The last line may be incomplete.
    return (String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init), isGood)
  }

  private func reading<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    let database = try Database.open(at: path) { TaskStorage.handle }
    let result = try database.read(body)
    try database.close()
    return result
  }

  @Test func `each order is counted exactly once, however often the process is killed`() throws {
    var random = SeededRandom(seed: UInt64(TestScale.count(20)))
    var (first, kills) = (1, 0)
    var promised: Set<Int> = []
    while kills < TestScale.count(20) {
      let (lines, isGood) = try run(first, 100, killedAfter: 1 + random.below(90))
      for line in lines where line.hasPrefix("+ ") {
        let first = Int(line.dropFirst(2)) ?? 0
        promised.formUnion(first...(first + 9))
      }
      first += 100
      if !isGood { kills += 1 }
    }
    #expect(try run(first, 0, killedAfter: nil).isGood)
    try reading { tx in
      let orders = Set(try tx.keys(String.self, in: "orders").compactMap { Int($0) })
      #expect(promised.isSubset(of: orders) && promised.count > kills * 10)
      let wrong = try orders.filter { try tx.object(Int.self, key: "\($0)", in: "effects") != 1 }
      #expect(wrong.isEmpty, "orders \(wrong.sorted().prefix(20))")
      #expect(try tx.keys(String.self, in: "effects").count == orders.count)
      #expect(try tx.tasks(.all).isEmpty)
      #expect(try tx.tasks.parts.live.count() == 0)
    }
  }

  @Test
  func `transition 20: a task that traps is dead after three deaths of the process, and all other tasks are done`()
    throws
  {
    let database = try Database.open(at: path) { TaskStorage.handle }
    try database.write { tx in try tx.set(true, key: "poisoned", in: "orders.flags") }
    try database.close()
    var deaths = 0
    var (lines, isGood) = try run(1, 100, crashes: 3, killedAfter: nil)
    while !isGood, deaths < 10 {
      deaths += 1
      (lines, isGood) = try run(1_000, 0, crashes: 3, killedAfter: nil)
    }
    #expect(deaths == 3 && lines.last == "end")
    try reading { tx in
      let left = try tx.tasks(.all)
      #expect(left.map(\.kind) == ["poison"] && left.first?.progress.state == .dead)
      #expect(left.first?.progress.crashes == 3)
      let orders = try tx.keys(String.self, in: "orders")
      #expect(!orders.isEmpty)
      for key in orders { #expect(try tx.object(Int.self, key: key, in: "effects") == 1, "order \(key)") }
      #expect(try tx.taskEvents().contains { $0.event.kind == .dead })
    }
  }
}
