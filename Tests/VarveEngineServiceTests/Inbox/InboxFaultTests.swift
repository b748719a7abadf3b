import EngineTestSupport
import Testing

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

func makeLink(_ path: String, to target: String) throws {
  guard unsafe symlink(target, path) == 0 else { throw SystemError.error(errno, call: "symlink", path: path) }
}

/// Tests of senders and engines that die, close, are older or take no requests, and of files that are not requests.
struct InboxFaultTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  private let files = PosixFileSystem()
  private static let patience: UInt64 = 3_600_000_000_000
  /// A process that does not exist.
  private static let dead = ProcessPlace(
    process: ProcessIdentity(number: 0, start: 1), namespace: ProcessIdentity.namespace)

  init() throws { directory = try TemporaryDirectory() }

  private func left() throws -> [String] { try files.list(path).filter { InboxFileName($0) != nil }.sorted() }

  private func put(_ bytes: [UInt8], as name: InboxFileName) throws {
    try files.writeWhole(bytes, path + "/" + name.name, part: path + "/" + name.part.name)
  }

  /// Waits until the file with a name exists or is gone.
  private func wait(for name: InboxFileName, exists: Bool) throws {
    while try (files.attributes(path + "/" + name.name) != nil) != exists { SystemClock().pause(1_000_000) }
  }

  private func answer(_ id: UInt64) throws -> RequestAnswer {
    let name = path + "/" + InboxFileName(id, .answer).name
    let bytes = try files.readOwn(name, limit: 1 << 20)
    return try bytes.withByteView { (view) throws(EngineError) in try AnswerFile(decoding: view, file: name) }.answer
  }

  // MARK: - Engines

  @Test func `an engine that takes no requests says so`() throws {
    var options = EngineOptions()
    options.takesRequests = false
    let engine = try Engine.open(at: path, options: options)
    let error = #expect(throws: EngineError.self) { try RequestSender(at: path).send(.flush) }
    #expect(error?.code == .locked && error?.message.contains("takesRequests") == true, "\(error as Any)")
    try engine.close()
  }

  @Test func `a program of an earlier version, which says nothing, is named as that`() throws {
    try Engine.open(at: path).close()
    let lock = try files.lock(path + "/LOCK")
    let error = #expect(throws: EngineError.self) { try RequestSender(at: path, patience: 0).send(.flush) }
    #expect(error?.code == .locked && error?.message.contains("older") == true, "\(error as Any)")
    #expect(try left() == [])
    lock.release()
  }

  @Test func `the note of a process that has ended counts for nothing`() throws {
    try Engine.open(at: path).close()
    let lock = try files.lock(path + "/LOCK")
    (lock as? PosixFileLock)?.write("varve 1 0 1 \(ProcessIdentity.namespace) requests\n")
    let error = #expect(throws: EngineError.self) { try RequestSender(at: path, patience: 0).send(.flush) }
    #expect(error?.message.contains("older") == true, "\(error as Any)")
    lock.release()
  }

  @Test func `a request that no one takes in time is withdrawn`() throws {
    try Engine.open(at: path).close()
    let lock = try files.lock(path + "/LOCK")
    LockNote(.requests).write(to: lock)
    let error = #expect(throws: EngineError.self) { try RequestSender(at: path, patience: 0).send(.flush) }
    #expect(error?.code == .locked && error?.message.contains("did not answer within 0 s") == true, "\(error as Any)")
    #expect(try left() == [])
    lock.release()
  }

  @Test func `a database that no process has open has no one to ask`() throws {
    try Engine.open(at: path).close()
    let outcome = try RequestSender(at: path, patience: Self.patience).send(.flush)
    guard case .ended(wasTaken: false) = outcome else { Issue.record("\(outcome)"); return }
  }

  @Test func `a request that an ended engine has left is carried out by the next, and what it had taken is removed`()
    throws
  {
    try Engine.open(at: path).close()
    let request = RequestFile(id: 1, sender: .current, request: .flush)
    try put(request.encode(), as: InboxFileName(1, .request))
    try put(request.encode(), as: InboxFileName(2, .taken))
    try put(AnswerFile(id: 2, answer: .waits).encode(), as: InboxFileName(2, .answer))
    try put([], as: InboxFileName(3, .request))
    let engine = try Engine.open(at: path)
    try wait(for: InboxFileName(1, .answer), exists: true)
    try wait(for: InboxFileName(1, .taken), exists: false)
    guard case .flushed = try answer(1) else { Issue.record("not flushed"); return }
    try wait(for: InboxFileName(3, .answer), exists: true)
    #expect(try left() == [InboxFileName(1, .answer).name, InboxFileName(3, .answer).name])
    try engine.close()
    try Engine.open(at: path).close()
    #expect(try left() == [])
    // A database is removed with all of them.
    try put(request.encode(), as: InboxFileName(1, .request))
    try Engine.destroy(at: path)
    #expect(try files.attributes(path) == nil)
  }

  @Test func `an engine that closes refuses what waits`() throws {
    let engine = try Engine.open(at: path)
    let inbox = try #require(engine.core.inbox)
    inbox.stop()
    RequestCall(inbox, RequestFile(id: 7, sender: .current, request: .flush)).run()
    guard case .failed(let error) = try answer(7) else { Issue.record("carried out"); return }
    #expect(error.code == .closed)
    let canceled = #expect(throws: EngineError.self) { try engine.compact() }
    #expect(canceled?.code == .canceled)
    try engine.close()
  }

  // MARK: - Senders

  @Test func `a request whose sender has died is not carried out, and its answer is removed with the next one`() throws
  {
    let engine = try Engine.open(at: path)
    let target = directory.path + "/copy"
    let request = RequestFile(id: 5, sender: Self.dead, request: .checkpoint(target: target))
    try put(request.encode(), as: InboxFileName(5, .request))
    let inbox = try #require(engine.core.inbox)
    inbox.answer(6, .flushed, to: nil)
    guard case .answer(.flushed) = try RequestSender(at: path, patience: Self.patience).send(.flush) else {
      Issue.record("not flushed")
      return
    }
    #expect(try files.attributes(target) == nil)
    #expect(try left() == [InboxFileName(6, .answer).name])
    try engine.close()
  }

  // MARK: - Files

  private func refusal(of id: UInt64) throws -> EngineError? {
    try wait(for: InboxFileName(id, .taken), exists: false)
    try wait(for: InboxFileName(id, .answer), exists: true)
    guard case .failed(let error) = try answer(id) else { return nil }
    return error
  }

  @Test func `a file that others can have written is refused`() throws {
    let engine = try Engine.open(at: path)
    let good = RequestFile(id: 1, sender: .current, request: .flush).encode()
    let hidden = directory.path + "/hidden"
    func write(mode: mode_t = 0o600, owner: uid_t? = nil) throws {
      let file = try files.createFile(hidden)
      try file.write(good, at: 0)
      file.close()
      #expect(unsafe chmod(hidden, mode) == 0)
      if let owner { #expect(unsafe chown(hidden, owner, owner) == 0) }
    }
    func sendHidden() throws -> EngineError? {
      try files.rename(hidden, to: path + "/" + InboxFileName(1, .request).name)
      defer { try? files.remove(path + "/" + InboxFileName(1, .answer).name) }
      return try refusal(of: 1)
    }
    try write(mode: 0o620)
    #expect(try sendHidden()?.code == .permissionDenied)
    try write(mode: 0o602)
    #expect(try sendHidden()?.code == .permissionDenied)
    try write()
    try files.link(hidden, to: directory.path + "/other")
    #expect(try sendHidden()?.code == .permissionDenied)
    try makeLink(hidden, to: directory.path + "/other")
    #expect(try sendHidden() != nil)
    #expect(unsafe mkfifo(hidden, 0o600) == 0)
    #expect(try sendHidden()?.code == .permissionDenied)
    if geteuid() == 0 {
      // Only the administrator can give a file away.
      try write(owner: 4_711)
      // The administrator's engine acts for the administrator.
      #expect(try sendHidden()?.code == .permissionDenied)
    }
    try engine.close()
  }

  @Test func `bytes that are not a request get an answer that says why`() throws {
    let engine = try Engine.open(at: path)
    let seed = TestScale.seed ?? .random(in: .min ... .max)
    print("seed \(seed)")
    var random = SeededRandom(seed: seed)
    let good = RequestFile(
      id: 9, sender: .current, request: .compact(family: "f", from: [1, 2], to: nil)
    ).encode()
    for turn in 0..<TestScale.count(60) {
      var bytes = good
      if turn % 3 == 0 {
        bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
      } else {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      }
      try put(bytes, as: InboxFileName(9, .request))
      let error = try refusal(of: 9)
      #expect(error?.code == .corruption || error?.code == .unsupportedFormat, "\(bytes)")
      try files.remove(path + "/" + InboxFileName(9, .answer).name)
    }
    // The name of another request.
    try put(good, as: InboxFileName(10, .request))
    #expect(try refusal(of: 10)?.code == .corruption)
    try engine.close()
  }
}
