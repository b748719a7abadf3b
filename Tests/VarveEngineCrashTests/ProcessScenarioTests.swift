import EngineTestSupport
import Testing

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// Tests of scenarios that concern a whole process: its working directory, its children, its limits. Each runs in its
/// own process (`Tests/KillTarget/Scenarios.swift`).
struct ProcessScenarioTests {
  private func run(_ scenario: String, _ directory: String) throws -> Bool {
    try ChildProcess(ChildProcess.built("varve-kill-target"), ["scenario", scenario, directory]).succeeds()
  }

  @Test(arguments: ["changedDirectory", "fork"])
  func `a database keeps its directory after a chdir, and belongs to the parent after a fork`(scenario: String) throws {
    let directory = try TemporaryDirectory()
    #expect(try run(scenario, directory.path))
  }

  @Test func `a child that outlives its parent does not keep the lock`() throws {
    let directory = try TemporaryDirectory()
    let fifo = directory.path + "/fifo"
    #expect(unsafe mkfifo(fifo, 0o600) == 0)
    #expect(try run("outlivingChild", directory.path))
    let engine = try Engine.open(at: directory.path + "/db")
    #expect(try engine.get(Array("key 1".utf8)) == [1])
    try engine.close()
    // Opening this end lets the child, which has waited for it, end.
    var descriptor: CInt = -1
    repeat {
      descriptor = unsafe open(fifo, O_WRONLY | O_NONBLOCK)
    } while descriptor < 0 && errno == ENXIO && sched_yield() == 0
    #expect(descriptor >= 0)
    close(descriptor)
  }

  @Test func `no file of a database has the number of a standard descriptor that the process lacks`() throws {
    let directory = try TemporaryDirectory()
    #expect(try run("noStandardDescriptors", directory.path))
  }

  #if os(Linux)
    @Test(
      .enabled(if: getuid() == 0, "only root can become a user without processes"),
      arguments: ["oneThread", "noThread"])
    func `an engine works without the threads that can't be started`(scenario: String) throws {
      #expect(try run(scenario, "/tmp"))
    }

    @Test func `a commit without address space for its memtable fails, and the next one works`() throws {
      let directory = try TemporaryDirectory()
      #expect(try run("addressSpace", directory.path))
    }
  #endif
}
