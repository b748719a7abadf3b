import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

@Suite struct SteppedExecutorTests {
  private func run(seed: UInt64, respectsPriority: Bool = false) -> [String] {
    let executor = SteppedExecutor(seed: seed, respectsPriority: respectsPriority)
    for number in 0..<6 {
      executor.submit("job \(number)", priority: number % 2 == 0 ? .low : .high) {
        if number == 0 { executor.submit("child", priority: .normal) {} }
      }
    }
    executor.runAll()
    return executor.trace
  }

  @Test func `the seed determines the order of jobs`() {
    #expect(run(seed: 1) == run(seed: 1))
    #expect(Set((UInt64(0)..<20).map { run(seed: $0) }).count > 10)
    #expect(run(seed: 1).count == 7)
    let byPriority = run(seed: 1, respectsPriority: true)
    #expect(byPriority[..<3].allSatisfy { ["job 1", "job 3", "job 5"].contains($0) })
  }

  @Test func `delayed jobs wait for the clock, and a wait advances it`() {
    let executor = SteppedExecutor(seed: 1)
    let ran = Mutex(0)
    let box = Box(ran)
    executor.submit("later", after: 1_000) { box.add() }
    #expect(!executor.step())
    executor.clock.advance(999)
    #expect(!executor.step())
    executor.clock.advance(1)
    #expect(executor.step())
    executor.submit("much later", after: 1_000_000) { box.add() }
    executor.wait { box.value == 2 }
    #expect(executor.clock.now() == 1_001_000)
    #expect(executor.trace == ["later", "much later"])
  }

  final class Box: Sendable {
    private let count: Mutex<Int>
    init(_ count: consuming Mutex<Int>) { self.count = count }
    func add() { count.withLock { $0 += 1 } }
    var value: Int { count.withLock { $0 } }
  }

  @Test func `jobs can be chosen by name, and pending jobs are dropped at a shutdown`() {
    let executor = SteppedExecutor(seed: 1, parallelism: 3)
    executor.submit("flush 1", priority: .high) {}
    executor.submit("compaction 1", priority: .low) {}
    #expect(executor.step(named: "compaction"))
    #expect(!executor.step(named: "compaction"))
    #expect(executor.pending == ["flush 1"])
    executor.shutDown()
    executor.submit("flush 2", priority: .high) {}
    #expect(executor.pending.isEmpty && !executor.step())
    #expect(executor.parallelism == 3)
  }
}

@Suite struct FaultInjectingFileSystemTests {
  @Test func `an injected fault fails the chosen call once`() throws {
    let files = FaultInjectingFileSystem(MemoryFileSystem())
    files.inject(Fault([.write], pathSuffix: ".log", skip: 1, code: .noSpace))
    let log = try files.createFile("1.log")
    let table = try files.createFile("1.sst")
    try log.write([1], at: 0)
    try table.write([1], at: 0)
    #expect(errorCode { () throws(EngineError) in try log.write([2], at: 0) } == .noSpace)
    try log.write([3], at: 0)
    #expect(try log.contents() == [3])
    #expect(files.failureCount == 1)
  }

  @Test func `a permanent fault lasts until it is cleared`() throws {
    let files = FaultInjectingFileSystem(MemoryFileSystem())
    let file = try files.createFile("a")
    files.inject(Fault([.sync, .syncDirectory], count: Fault.always))
    for _ in 0..<3 {
      #expect(errorCode { () throws(EngineError) in try file.sync() } == .inputOutput)
      #expect(errorCode { () throws(EngineError) in try files.syncDirectory("/") } == .inputOutput)
    }
    files.clear()
    try file.sync()
  }

  @Test func `a failing write may leave half of its bytes`() throws {
    let files = FaultInjectingFileSystem(MemoryFileSystem())
    let file = try files.createFile("a")
    files.inject(Fault([.write], writesHalf: true))
    #expect(errorCode { () throws(EngineError) in try file.write([1, 2, 3, 4], at: 0) } == .inputOutput)
    #expect(try file.contents() == [1, 2])
  }

  @Test func `each kind of call can be made to fail`() throws {
    for kind in Fault.Kind.allCases {
      let files = FaultInjectingFileSystem(MemoryFileSystem())
      let file = try files.createFile("a")
      try file.write([1], at: 0)
      try files.createDirectory("d")
      files.inject(Fault([kind]))
      var byte: [UInt8] = [0]
      let code = errorCode { () throws(EngineError) in
        switch kind {
        case .createFile: _ = try files.createFile("b")
        case .openFile: _ = try files.openFile("a", writable: false)
        case .lock: _ = try files.lock("a")
        case .rename: try files.rename("a", to: "b")
        case .link: try files.link("a", to: "b")
        case .remove: try files.remove("a")
        case .createDirectory: try files.createDirectory("e")
        case .removeDirectory: try files.removeDirectory("d")
        case .list: _ = try files.list("/")
        case .attributes: _ = try files.attributes("a")
        case .syncDirectory: try files.syncDirectory("/")
        case .freeSpace: _ = try files.freeSpace("/")
        case .size: _ = try file.size()
        case .read: _ = try file.read(into: &byte, at: 0)
        case .write: try file.write([2], at: 0)
        case .truncate: try file.truncate(to: 0)
        case .sync: try file.sync()
        case .map: _ = try file.map(size: 1)
        }
      }
      #expect(code == .inputOutput, "\(kind)")
      #expect(try files.list("/") == ["a", "d"], "\(kind): nothing happened")
      #expect(try file.contents() == [1], "\(kind): nothing happened")
    }
  }
}
