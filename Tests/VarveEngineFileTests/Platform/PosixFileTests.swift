import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

@Suite struct PosixFileTests {
  /// Returns system calls that transfer at most `limit` bytes, and of which every other one is interrupted.
  private func hampered(limit: Int, interruptions: Interruptions) -> SystemCalls {
    var calls = SystemCalls.system
    unsafe calls.read = { descriptor, target, count, offset in
      if interruptions.isNext() { return -Int(EINTR) }
      return unsafe SystemCalls.system.read(descriptor, target, min(count, limit), offset)
    }
    unsafe calls.write = { descriptor, source, count, offset in
      if interruptions.isNext() { return -Int(EINTR) }
      return unsafe SystemCalls.system.write(descriptor, source, min(count, limit), offset)
    }
    calls.syncData = { interruptions.isNext() ? -EINTR : SystemCalls.system.syncData($0) }
    calls.syncFirst = { interruptions.isNext() ? -EINTR : SystemCalls.system.syncFirst($0, $1) }
    calls.truncate = { interruptions.isNext() ? -EINTR : SystemCalls.system.truncate($0, $1) }
    return calls
  }

  final class Interruptions: Sendable {
    private let calls = Atomic<Int>(0)
    var count: Int { calls.load(ordering: .relaxed) }
    func isNext() -> Bool { calls.add(1, ordering: .relaxed).newValue % 2 == 1 }
  }

  @Test(arguments: [1, 7, 4_096])
  func `short and interrupted transfers are finished`(limit: Int) throws {
    let directory = try TemporaryDirectory()
    let interruptions = Interruptions()
    let files = PosixFileSystem(calls: hampered(limit: limit, interruptions: interruptions))
    let file = try files.createFile(directory.path + "/a")
    let bytes = (0..<10_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    try file.write(bytes, at: 3)
    #expect(interruptions.count >= 10_000 / limit * 2)
    #expect(try file.contents() == [0, 0, 0] + bytes)
    var tail = [UInt8](repeating: 9, count: 8)
    #expect(try file.read(into: &tail, at: 9_999) == 4)
    #expect(tail[4...] == [9, 9, 9, 9])
    try file.sync()
    try file.sync(first: 4_096)
    try file.truncate(to: 5)
    #expect(try file.contents() == [0, 0, 0, 0, 7])
    #expect(try PosixFileSystem().openFile(directory.path + "/a", writable: false).contents() == [0, 0, 0, 0, 7])
  }

  @Test func `the error of a write that ends early names the offset and the cause`() throws {
    let directory = try TemporaryDirectory()
    var calls = SystemCalls.system
    unsafe calls.write = { descriptor, source, count, offset in
      if offset >= 100 { return -Int(ENOSPC) }
      return unsafe SystemCalls.system.write(descriptor, source, min(count, Int(100 - offset)), offset)
    }
    let file = try PosixFileSystem(calls: calls).createFile(directory.path + "/a")
    do throws(EngineError) {
      try file.write([UInt8](repeating: 1, count: 300), at: 0)
      Issue.record("the write succeeded")
    } catch {
      #expect(error.code == .noSpace)
      #expect(error.offset == 100)
      #expect(error.file == directory.path + "/a")
      #expect(error.message.contains("pwrite") && error.message.contains("ENOSPC"))
    }
    #expect(try file.size() == 100)
  }

  @Test func `a call that makes no progress is an error, not a loop`() throws {
    let directory = try TemporaryDirectory()
    var calls = SystemCalls.system
    unsafe calls.write = { _, _, _, _ in 0 }
    let file = try PosixFileSystem(calls: calls).createFile(directory.path + "/a")
    #expect(errorCode { () throws(EngineError) in try file.write([1], at: 0) } == .inputOutput)
  }

  @Test func `an error of the disk names the system call and the error code`() throws {
    let directory = try TemporaryDirectory()
    var calls = SystemCalls.system
    unsafe calls.read = { _, _, _, _ in -Int(EIO) }
    calls.syncData = { _ in -EIO }
    calls.syncFirst = { _, _ in -EIO }
    let file = try PosixFileSystem(calls: calls).createFile(directory.path + "/a")
    var byte: [UInt8] = [0]
    #expect(errorCode { () throws(EngineError) in _ = try file.read(into: &byte, at: 0) } == .inputOutput)
    do throws(EngineError) {
      try file.sync()
      Issue.record("the sync succeeded")
    } catch {
      #expect(error.description.contains("fdatasync failed with EIO (5)"))
      #expect(error.description.contains(directory.path))
    }
    do throws(EngineError) {
      try file.sync(first: 1)
      Issue.record("the sync succeeded")
    } catch {
      #expect(error.description.contains("msync failed with EIO (5)"))
    }
  }

  @Test func `several files are synced, each once, and errors of any of them are reported`() throws {
    let directory = try TemporaryDirectory()
    let synced = Mutex<Set<Int32>>([])
    let failing = Mutex<Int32?>(nil)
    var calls = SystemCalls.system
    calls.syncData = { descriptor in
      let isNew = synced.withLock { $0.insert(descriptor).inserted }
      return isNew && failing.withLock({ $0 }) != descriptor ? 0 : -EIO
    }
    let files = PosixFileSystem(calls: calls)
    let many = try (0..<50).map { try files.createFile("\(directory.path)/\($0)") }
    for count in [0, 1, 7, 50] {
      synced.withLock { $0 = [] }
      try files.sync(Array(many.prefix(count)))
      #expect(synced.withLock { $0.count } == count)
    }
    failing.withLock { $0 = synced.withLock { $0.sorted()[30] } }
    synced.withLock { $0 = [] }
    #expect(errorCode { () throws(EngineError) in try files.sync(many) } == .inputOutput)
  }

  @Test func `only the owner may access files and directories`() throws {
    let directory = try TemporaryDirectory()
    let files = PosixFileSystem()
    try files.createFile(directory.path + "/a").close()
    try files.createDirectory(directory.path + "/d")
    try files.lock(directory.path + "/LOCK").release()
    #expect(mode(directory.path + "/a") == 0o600)
    #expect(mode(directory.path + "/LOCK") == 0o600)
    #expect(mode(directory.path + "/d") == 0o700)
  }

  private func mode(_ path: String) -> mode_t? {
    var information = stat()
    return unsafe stat(path, &information) == 0 ? information.st_mode & 0o777 : nil
  }

  @Test func `a path with a zero byte is an invalid argument`() throws {
    let files = PosixFileSystem()
    #expect(errorCode { () throws(EngineError) in _ = try files.createFile("/tmp/a\0b") } == .invalidArgument)
    #expect(errorCode { () throws(EngineError) in try files.rename("/tmp/a", to: "/tmp/\0") } == .invalidArgument)
    #expect(!files.supportsMapping("/tmp\0"))
  }

  @Test func `files of an unknown or absent file system are not mapped`() throws {
    #expect(!PosixFileSystem().supportsMapping("/proc"))
    #expect(!PosixFileSystem().supportsMapping("/no/such/directory"))
  }

  @Test func `a lock belongs to the file, not to its name`() throws {
    let directory = try TemporaryDirectory()
    let files = PosixFileSystem()
    let held = try files.lock(directory.path + "/LOCK")
    try files.link(directory.path + "/LOCK", to: directory.path + "/SAME")
    #expect(errorCode { () throws(EngineError) in _ = try files.lock(directory.path + "/SAME") } == .locked)
    try files.remove(directory.path + "/LOCK")
    try files.lock(directory.path + "/LOCK").release()
    held.release()
    try files.lock(directory.path + "/SAME").release()
  }

  @Test func `a lock excludes the locks of other open file descriptions, and they exclude it`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/LOCK"
    try PosixFileSystem().createFile(path).close()
    // Simulates another process: its lock is not in the registry of this process.
    let descriptor = unsafe open(path, O_RDWR)
    #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    #expect(errorCode { () throws(EngineError) in _ = try PosixFileSystem().lock(path) } == .locked)
    #expect(flock(descriptor, LOCK_UN) == 0)
    let held = try PosixFileSystem().lock(path)
    #expect(flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    held.release()
    #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    close(descriptor)
  }

  @Test func `a close does not wait, and a call under way keeps its descriptor`() throws {
    let directory = try TemporaryDirectory()
    let started = Futex()
    let goOn = Futex()
    let shared = SharedFutexes(started: started, goOn: goOn)
    var calls = SystemCalls.system
    unsafe calls.read = { descriptor, target, count, offset in
      shared.started.store(1)
      shared.started.wakeAll()
      while shared.goOn.load() == 0 { shared.goOn.wait(while: 0) }
      return unsafe SystemCalls.system.read(descriptor, target, count, offset)
    }
    let file = try PosixFileSystem(calls: calls).createFile(directory.path + "/a")
    try file.write([1, 2, 3], at: 0)
    let result = Mutex<Result<[UInt8], EngineError>?>(nil)
    let results = ResultBox(result)
    let reader = EngineThread(name: "reader") {
      var bytes = [UInt8](repeating: 0, count: 3)
      do throws(EngineError) {
        _ = try file.read(into: &bytes, at: 0)
        results.set(.success(bytes))
      } catch { results.set(.failure(error)) }
    }
    while shared.started.load() == 0 { shared.started.wait(while: 0) }
    file.close()
    #expect(errorCode { () throws(EngineError) in _ = try file.size() } == .inputOutput)
    // The new file would get the descriptor's number if that had been released.
    let other = try PosixFileSystem().createFile(directory.path + "/b")
    try other.write([9, 9, 9], at: 0)
    shared.goOn.store(1)
    shared.goOn.wakeAll()
    reader.join()
    #expect(try results.get()?.get() == [1, 2, 3])
  }

  final class SharedFutexes: Sendable {
    let started: Futex
    let goOn: Futex
    init(started: consuming Futex, goOn: consuming Futex) {
      self.started = started
      self.goOn = goOn
    }
  }

  final class ResultBox: Sendable {
    private let result: Mutex<Result<[UInt8], EngineError>?>
    init(_ result: consuming Mutex<Result<[UInt8], EngineError>?>) { self.result = result }
    func set(_ value: Result<[UInt8], EngineError>) { result.withLock { $0 = value } }
    func get() -> Result<[UInt8], EngineError>? { result.withLock { $0 } }
  }
}
