import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of requests on a full disk, and in a directory that can't be written: the sender gets an error that says why,
/// nothing that was acknowledged is lost, no file stays, and the engine continues.
struct InboxSpaceTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  /// What hinders the process that has the database open.
  private let owner = Hindrance()
  /// What hinders the process that sends.
  private let other = Hindrance()
  private static let patience: UInt64 = 3_600_000_000_000
  private static let count = 500

  init() throws { directory = try TemporaryDirectory() }

  private func open() throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 256 << 10
    options.logSegmentSize = 256 << 10
    var environment = EngineEnvironment.system
    environment.fileSystem = owner.files
    let engine = try Engine.open(at: path, options: options, environment: environment)
    for number in 0..<Self.count { try engine.put(key(number), [UInt8](repeating: UInt8(number & 255), count: 100)) }
    return engine
  }

  private func key(_ number: Int) -> [UInt8] { Array("key \(number)".utf8) }

  private func send(_ request: EngineRequest, patience: UInt64 = patience) throws -> RequestAnswer {
    let outcome = try RequestSender(at: path, patience: patience, other.files).send(request)
    guard case .answer(let answer) = outcome else { throw Unexpected(what: "\(outcome)") }
    return answer
  }

  private struct Unexpected: Error { let what: String }

  /// Returns the error of a request that fails, in the sender or in the engine.
  private func failure(_ request: EngineRequest, patience: UInt64 = patience) throws -> EngineError {
    do {
      guard case .failed(let error) = try send(request, patience: patience) else {
        throw Unexpected(what: "\(request) succeeded")
      }
      return error
    } catch let error as EngineError { return error }
  }

  /// The files of requests and answers in the directory.
  private func left() throws -> [String] {
    try PosixFileSystem().list(path).filter { InboxFileName($0) != nil }.sorted()
  }

  /// Waits until the engine has given up the answer of a request.
  private func waitForEnd(in engine: borrowing Engine) throws {
    let inbox = try #require(engine.core.inbox)
    while inbox.unremoved.isEmpty { SystemClock().pause(1_000_000) }
  }

  /// Checks that the engine has all rows and continues, and that an engine that opens the database after it has them.
  private func checkSurvival(of engine: consuming Engine) throws {
    (owner.isFull, owner.isUnwritable, other.isFull, other.isUnwritable) = (false, false, false, false)
    for number in 0..<Self.count { #expect(try engine.get(key(number))?.first == UInt8(number & 255)) }
    try engine.resume()
    try engine.put([1], [2])
    guard case .flushed = try send(.flush) else { throw Unexpected(what: "not flushed") }
    guard case .statistics = try send(.statistics) else { throw Unexpected(what: "no statistics") }
    #expect(try left() == [])
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
    #expect(try left() == [])
    let next = try Engine.open(at: path)
    for number in 0..<Self.count { #expect(try next.get(key(number))?.first == UInt8(number & 255)) }
    #expect(try next.get([1]) == [2])
    try next.close()
  }

  // MARK: - A full disk

  @Test func `a request that a full disk has no space for is an error of the sender, and leaves no file`() throws {
    let engine = try open()
    other.isFull = true
    let error = try failure(.flush)
    #expect(error.code == .noSpace && error.message.contains("the request can't be written"), "\(error)")
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  @Test(arguments: [EngineRequest.flush, .compact(family: nil, from: nil, to: nil)])
  func `a request that a full disk prevents is answered with that, although the disk is full`(request: EngineRequest)
    throws
  {
    let engine = try open()
    owner.isFull = true
    let error = try failure(request)
    #expect(error.code == .noSpace && error.message.contains("ENOSPC"), "\(error)")
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  @Test func `an answer that needs more space than a full disk has is one that says so`() throws {
    let engine = try open()
    // Their statistics are larger than a block.
    _ = try engine.createFamilies((0..<100).map { "family \($0)" })
    owner.isFull = true
    let error = try failure(.statistics)
    #expect(error.code == .noSpace && error.message.contains("was carried out; its answer of"), "\(error)")
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  @Test func `a checkpoint that a full disk prevents leaves nothing of it`() throws {
    let engine = try open()
    owner.isFull = true
    let error = try failure(.checkpoint(target: directory.path + "/copy"))
    #expect(error.code == .noSpace, "\(error)")
    #expect(try PosixFileSystem().list(directory.path).filter { $0.hasPrefix("copy") } == [])
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  // MARK: - A directory that can't be written

  @Test func `a sender that may not write into the directory gets that as an error`() throws {
    let engine = try open()
    other.isUnwritable = true
    let error = try failure(.flush)
    #expect(error.code == .permissionDenied && error.message.contains("the request can't be written"), "\(error)")
    #expect(error.message.contains("has the database open"), "\(error)")
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  @Test func `a request that the engine may not take is withdrawn in time`() throws {
    let engine = try open()
    owner.isUnwritable = true
    let error = try failure(.flush, patience: 0)
    #expect(error.code == .locked && error.message.contains("did not answer"), "\(error)")
    #expect(try left() == [])
    try checkSurvival(of: engine)
  }

  @Test func `a request that no process may take or withdraw is given up in time`() throws {
    let engine = try open()
    owner.isUnwritable = true
    // The sender creates a file and renames it.
    other.makeUnwritable(after: 2, changesOf: ".request.part")
    let error = try failure(.flush, patience: 0)
    #expect(error.code == .permissionDenied && error.message.contains("can't be withdrawn"), "\(error)")
    #expect(try left().count == 1)
    (owner.isUnwritable, other.isUnwritable) = (false, false)
    try PosixFileSystem().remove(path + "/" + left()[0])
    try checkSurvival(of: engine)
  }

  @Test func `a sender does not wait for an answer that can not be written, and the engine removes the request later`()
    throws
  {
    let engine = try open()
    // The engine takes the request by the only change that it can make.
    owner.makeUnwritable(after: 1, changesOf: ".request")
    other.makeUnwritable(after: 2, changesOf: ".request.part")
    let error = try failure(.flush)
    #expect(
      error.code == .permissionDenied && error.message.contains("has taken the request and can't answer"), "\(error)")
    try waitForEnd(in: engine)
    #expect(try left().count == 1)
    try checkSurvival(of: engine)
  }

  @Test func `an engine that closes removes the requests whose files it could not remove before`() throws {
    let engine = try open()
    owner.makeUnwritable(after: 1, changesOf: ".request")
    other.makeUnwritable(after: 2, changesOf: ".request.part")
    #expect(try failure(.statistics).code == .permissionDenied)
    try waitForEnd(in: engine)
    #expect(try left().count == 1)
    (owner.isUnwritable, other.isUnwritable) = (false, false)
    try engine.close()
    #expect(try left() == [])
  }
}
