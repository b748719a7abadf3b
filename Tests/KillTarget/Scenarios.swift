import EngineTestSupport
import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Scenarios that concern a whole process, each run in its own: `varve-kill-target scenario <name> <directory>`.
///
/// The exit status is 0 on success; otherwise a message is on the standard error.
enum Scenario: String {
  /// The working directory changes while a database with a relative path is open.
  case changedDirectory
  /// A forked child uses its parent's engine.
  case fork
  /// A forked child outlives its parent, which dies with an open engine.
  case outlivingChild
  /// A commit waits for a sync that does not complete; later commits are acknowledged.
  case pendingSync
  /// The system starts one thread, or none at all.
  case oneThread, noThread
  /// The system has no address space for a large memtable.
  case addressSpace
  /// The process has no standard input, output and error.
  case noStandardDescriptors

  struct Failure: Error {
    let message: String
    init(_ message: String) { self.message = message }
  }

  func run(_ directory: String) throws {
    switch self {
    case .changedDirectory: try Self.changeDirectory(directory)
    case .fork: try Self.forkOnce(directory + "/db")
    case .outlivingChild: try Self.leaveChild(directory)
    case .pendingSync: try Self.waitForSync(directory + "/db")
    case .oneThread: try Self.limitThreads(to: 1)
    case .noThread: try Self.limitThreads(to: 0)
    case .addressSpace: try Self.limitAddressSpace(directory + "/db")
    case .noStandardDescriptors: try Self.printIntoNothing(directory + "/db")
    }
  }

  private static func require(_ condition: Bool, _ message: String) throws {
    if !condition { throw Failure(message) }
  }

  private static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do { try body() } catch { return (error as? EngineError)?.code }
    return nil
  }

  private static func key(_ number: Int) -> [UInt8] { Array("key \(number)".utf8) }

  // MARK: - The working directory

  private static func changeDirectory(_ directory: String) throws {
    for name in ["a", "b", "b/rel"] { try require(unsafe mkdir("\(directory)/\(name)", 0o700) == 0, "mkdir \(name)") }
    try require(unsafe chdir("\(directory)/a") == 0, "chdir a")
    let engine = try Engine.open(at: "rel")
    for number in 0..<1_000 { try engine.put(key(number), [1], durability: number % 100 == 0 ? .power : .process) }
    try require(unsafe chdir("\(directory)/b") == 0, "chdir b")
    try engine.flush()
    for number in 1_000..<2_000 { try engine.put(key(number), [2]) }
    try engine.flush()
    try engine.compact()
    let faults = try engine.verify().faults
    try require(faults.isEmpty, "\(faults)")
    try engine.close()
    try require(unsafe rmdir("\(directory)/b/rel") == 0, "something was made in the other directory")
    let again = try Engine.open(at: "\(directory)/a/rel")
    for number in 0..<2_000 { try require(try again.get(key(number)) == [number < 1_000 ? 1 : 2], "key \(number)") }
    try again.close()
  }

  // MARK: - Descriptors

  /// Prints with a text between the operations of an engine. None of the texts may reach a file of the database.
  private static func printIntoNothing(_ path: String) throws {
    for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] { close(descriptor) }
    let text: [UInt8] = Array("a line of text\n".utf8)
    func printText() throws {
      for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
        try require(unsafe write(descriptor, text, text.count) < 0, "descriptor \(descriptor) is a file")
      }
    }
    for round in 1...3 {
      let engine = try Engine.open(at: path)
      try printText()
      for number in 0..<100 { try engine.put(key(number), [UInt8(round)], durability: .power) }
      try engine.flush()
      try printText()
      try require(try engine.get(key(1)) == [UInt8(round)], "key 1 in round \(round)")
      let follower = try Engine.follow(at: path)
      try printText()
      try follower.close()
      try engine.compact()
      try printText()
      let faults = try engine.verify().faults
      try require(faults.isEmpty, "\(faults)")
      try engine.close()
    }
  }

  // MARK: - Forks

  /// `fork` is looked up by its name, because Swift does not import it.
  private static func forkProcess() throws -> pid_t {
    guard let symbol = unsafe dlsym(nil, "fork") else { throw Failure("there is no fork") }
    return unsafe unsafeBitCast(symbol, to: (@convention(c) () -> pid_t).self)()
  }

  private static func forkOnce(_ path: String) throws {
    var options = EngineOptions()
    options.publishesStatistics = false
    let engine = try Engine.open(at: path, options: options)
    try engine.put(key(1), [1])
    // A lock of the Swift runtime that another thread holds during the fork stays locked in the child. So the
    // engine's threads must be idle at that time, and whatever the child needs must exist before.
    try engine.flush()
    try engine.waitForCompaction()
    try require(code { _ = try Engine.open(at: path) } == .locked, "the database is not locked")
    let sequence = engine.visibleSequence
    let child = try forkProcess()
    if child == 0 {
      let codes = [
        code { try engine.put(key(2), [2]) }, code { _ = try engine.get(key(1)) }, code { try engine.flush() },
        code { try engine.close() },
      ]
      guard codes.allSatisfy({ $0 == .closed }) else { _exit(1) }
      // The parent has the database open.
      _exit(code { _ = try Engine.open(at: path) } == .locked ? 0 : 2)
    }
    var status: CInt = 0
    while unsafe waitpid(child, &status, 0) < 0 && errno == EINTR {}
    try require(status == 0, "the child ended with status \(status)")
    try require(engine.visibleSequence == sequence, "the child has committed")
    // The child must not have released the lock.
    try require(code { _ = try Engine.open(at: path) } == .locked, "the database is not locked any more")
    try engine.put(key(2), [3])
    try engine.close()
    let again = try Engine.open(at: path)
    try require(try again.get(key(1)) == [1] && again.get(key(2)) == [3], "other values are there")
    try again.close()
  }

  private static func leaveChild(_ directory: String) throws {
    let engine = try Engine.open(at: directory + "/db")
    try engine.put(key(1), [1])
    // The child releases the lock before `fork` returns there; until it has run that far, it still holds it.
    var ends: [CInt] = [-1, -1]
    try require(unsafe pipe(&ends) == 0, "pipe")
    if try forkProcess() == 0 {
      close(STDOUT_FILENO)
      close(ends[0])
      close(ends[1])
      // Waits until the test opens the other end.
      let descriptor = unsafe open(directory + "/fifo", O_RDONLY)
      _exit(descriptor >= 0 ? 0 : 1)
    }
    close(ends[1])
    var byte: UInt8 = 0
    while unsafe read(ends[0], &byte, 1) < 0 && errno == EINTR {}
    _exit(0)
  }

  // MARK: - A sync under way

  /// Writes a number to the standard output when all commits are in the log, and waits to be killed.
  private static func waitForSync(_ path: String) throws {
    let system = EngineEnvironment.system
    let fileSystem = GatedFileSystem(system.fileSystem)
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: system.clock, random: system.random, makeExecutor: system.makeExecutor)
    let engine = try Engine.open(at: path, environment: environment)
    try engine.put(key(1), [1])
    fileSystem.syncs.shut()
    let waiting = Task { try await engine.async.put(key(2), [2], durability: .power) }
    // The commit is visible here before its sync.
    while engine.visibleSequence.value < 2 { sched_yield() }
    for number in 3...100 { try engine.put(key(number), [UInt8(number)]) }
    var word = UInt64(100)
    _ = unsafe write(STDOUT_FILENO, &word, 8)
    while !waiting.isCancelled { _ = poll(nil, 0, -1) }
  }

  // MARK: - Limits

  /// Limits the number of threads. The process changes to a user without other processes, because the limit counts
  /// all processes of a user.
  private static func limitThreads(to count: Int) throws {
    let user = uid_t(50_000 + getpid() % 10_000)
    try require(setgid(user) == 0 && setuid(user) == 0, "setuid")
    #if canImport(Glibc)
      var limit = rlimit(rlim_cur: rlim_t(1 + count), rlim_max: rlim_t(1 + count))
      try require(unsafe setrlimit(__rlimit_resource_t(__RLIMIT_NPROC.rawValue), &limit) == 0, "setrlimit")
    #endif
    let directory = "/tmp/varve-threads-\(getpid())"
    try require(unsafe mkdir(directory, 0o700) == 0, "mkdir")
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    options.backgroundThreads = 3
    let path = directory + "/db"
    let engine = try Engine.open(at: path, options: options)
    for number in 0..<20_000 { try engine.put(key(number), [UInt8](repeating: 1, count: 50)) }
    let last = try engine.put(key(0), [2], durability: .powerEvery(nanoseconds: 1_000))
    if count == 0 { try require(engine.durableSequence >= last, "a promised sync did not come") }
    try engine.flush()
    try engine.compact()
    try require(try engine.get(key(0)) == [2], "the first key")
    try require(try engine.get(key(19_999))?.count == 50, "the last key")
    try engine.close()
    try Engine.destroy(at: path)
    _ = unsafe rmdir(directory)
  }

  private static func limitAddressSpace(_ path: String) throws {
    var engine = try Engine.open(at: path)
    try engine.put(key(1), [1])
    // The range deletes of a large batch are sorted before the commit, which takes about 110 MiB in several
    // allocations.
    var ranges = WriteBatch()
    try ranges.deleteRange(from: key(0), to: key(2))
    for number in 0..<1_000_000 {
      try ranges.deleteRange(from: KillTarget.key(UInt64(number)), to: KillTarget.key(UInt64(number + 2)))
    }
    for mebibytes in [8, 48, 88] {
      try requireNoMemory(engine, mebibytes, "\(mebibytes) MiB for range deletes") { _ = try engine.write(ranges) }
    }
    let value = [UInt8](repeating: 7, count: 100 << 20)
    try requireNoMemory(engine, 64, "a value of 100 MiB") { try engine.put(key(2), value) }
    // The value is in a table, as a single block.
    try engine.put(key(9), value)
    try engine.close()
    // The database is opened again, so that no address space is released meanwhile.
    engine = try Engine.open(at: path)
    try requireNoMemory(engine, 32, "the read of a value of 100 MiB") { _ = try engine.get(key(9)) }
    try require(try engine.get(key(1)) == [1], "a key that a range delete would cover")
    try engine.put(key(3), [3])
    try engine.close()
    let again = try Engine.open(at: path)
    try require(try again.get(key(1)) == [1] && again.get(key(2)) == nil && again.get(key(3)) == [3], "the content")
    try require(try again.get(key(9)) == value, "the large value")
    try again.close()
  }

  /// Runs `body` with `mebibytes` MiB of address space more than the process has. It must throw `.noMemory` and
  /// commit nothing.
  private static func requireNoMemory(
    _ engine: Engine, _ mebibytes: Int, _ name: String, _ body: () throws -> Void
  ) throws {
    let before = engine.visibleSequence
    var found: EngineError.Code?
    #if canImport(Glibc)
      var limit = rlimit()
      try require(unsafe getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, "getrlimit")
      let old = limit.rlim_cur
      limit.rlim_cur = rlim_t(try addressSpace() + mebibytes << 20)
      try require(unsafe setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, "setrlimit")
      found = code(body)
      limit.rlim_cur = old
      try require(unsafe setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, "setrlimit")
    #endif
    try require(found == .noMemory, "\(found.map { "\($0)" } ?? "no error") instead of noMemory: \(name)")
    try require(engine.visibleSequence == before, "a commit that failed is visible: \(name)")
  }

  /// Returns the size of the process's address space in bytes.
  private static func addressSpace() throws -> Int {
    guard let file = unsafe fopen("/proc/self/statm", "r") else { throw Failure("/proc/self/statm") }
    defer { unsafe _ = fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    guard unsafe fgets(&line, 256, file) != nil else { throw Failure("/proc/self/statm") }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard let pages = text.split(separator: " ").first.flatMap({ Int($0) }) else { throw Failure(text) }
    return pages * 4_096
  }
}
