import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of requests that reach an engine through the files of its directory.
///
/// The sender is in the same process, which makes no difference to either side.
struct RequestTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }
  private let files = PosixFileSystem()
  /// A bound that is not reached on a machine that is slow.
  private static let patience: UInt64 = 3_600_000_000_000

  init() throws { directory = try TemporaryDirectory() }

  private func open(_ change: (inout EngineOptions) -> Void = { _ in }) throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    change(&options)
    let engine = try Engine.open(at: path, options: options)
    for number in 0..<2_000 {
      try engine.put(Array("key \(number)".utf8), [UInt8](repeating: UInt8(number & 255), count: 100))
    }
    return engine
  }

  private func send(_ request: EngineRequest, progress: (RequestAnswer) -> Void = { _ in }) throws -> RequestAnswer {
    let outcome = try RequestSender(at: path, patience: Self.patience).send(request, progress: progress)
    guard case .answer(let answer) = outcome else { throw Unexpected(what: "\(outcome)") }
    return answer
  }

  private struct Unexpected: Error { let what: String }

  private func failure(_ request: EngineRequest) throws -> EngineError {
    guard case .failed(let error) = try send(request) else { throw Unexpected(what: "the request succeeded") }
    return error
  }

  /// The files of requests and answers in the directory.
  private func left() throws -> [String] { try files.list(path).filter { InboxFileName($0) != nil }.sorted() }

  @Test func `each request is carried out and answered, and leaves no file`() throws {
    let engine = try open()
    guard case .statistics(let json) = try send(.statistics) else { throw Unexpected(what: "no statistics") }
    #expect(json.hasPrefix("{") && json.contains("\"visibleSequence\":2000"))
    guard case .flushed = try send(.flush) else { throw Unexpected(what: "not flushed") }
    #expect(engine.statistics.families[0].memTableEntryCount == 0)
    var reports: [RequestAnswer] = []
    let compacted = try send(.compact(family: nil, from: nil, to: nil)) { reports.append($0) }
    guard case .compacted(let totals) = compacted else { throw Unexpected(what: "\(compacted)") }
    #expect(totals.tableBytesAfter == engine.statistics.tableBytes && totals.tableBytesAfter > 0)
    #expect(!reports.contains { $0.isFinal })
    let target = directory.path + "/copy"
    guard case .checkpoint(let report) = try send(.checkpoint(target: target)) else {
      throw Unexpected(what: "no checkpoint")
    }
    #expect(report.sequence == engine.visibleSequence && report.tablesLinked > 0)
    #expect(try left() == [])
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
    let copy = try Engine.open(at: target)
    #expect(try copy.get(Array("key 1999".utf8))?.count == 100)
    try copy.close()
  }

  @Test func `a compaction is one of a family and a range, and an unknown family is an error`() throws {
    let engine = try open()
    let other = try engine.createFamily("other")
    try engine.put([1], [2], in: other)
    guard case .compacted = try send(.compact(family: "other", from: [0], to: [255])) else {
      throw Unexpected(what: "not compacted")
    }
    #expect(try failure(.compact(family: "nope", from: nil, to: nil)).code == .unknownFamily)
    try engine.close()
  }

  @Test func `several senders at once all get their answers`() async throws {
    let engine = try open()
    let sender = RequestSender(at: path, patience: Self.patience)
    let directory = directory.path
    let answers = try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<8 {
        group.addTask {
          let request: EngineRequest = number % 2 == 0 ? .checkpoint(target: "\(directory)/copy\(number)") : .flush
          switch try sender.send(request) {
          case .answer(.checkpoint), .answer(.flushed): return true
          default: return false
          }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers.count == 8 && answers.allSatisfy { $0 })
    #expect(try left() == [])
    try engine.close()
  }

  // MARK: - Targets

  @Test func `a checkpoint is made beside the database and below, and nothing is overwritten`() throws {
    let engine = try open()
    try files.createDirectory(directory.path + "/backups")
    for name in ["/copy", "/backups/copy"] {
      guard case .checkpoint = try send(.checkpoint(target: directory.path + name)) else {
        throw Unexpected(what: name)
      }
      #expect(try failure(.checkpoint(target: directory.path + name)).code == .alreadyExists)
    }
    #expect(try failure(.checkpoint(target: directory.path + "/missing/copy")).code == .notFound)
    for target in ["copy", "", "/", directory.path + "/..", directory.path + "/.", directory.path + "/a\0b"] {
      #expect(try failure(.checkpoint(target: target)).code == .invalidArgument, "\(target)")
    }
    #expect(try left() == [])
    try engine.close()
  }

  @Test func `a target elsewhere is refused, also through a link, and one in the database`() throws {
    let elsewhere = try TemporaryDirectory()
    let engine = try open()
    try makeLink(directory.path + "/link", to: elsewhere.path)
    for parent in [elsewhere.path, directory.path + "/link", directory.path + "/../" + last(elsewhere.path), path] {
      let error = try failure(.checkpoint(target: parent + "/copy"))
      #expect(error.code == (parent == path ? .invalidArgument : .permissionDenied), "\(error)")
    }
    #expect(try files.list(elsewhere.path) == [])
    try engine.close()
  }

  @Test func `a folder that the program names is a place for checkpoints`() throws {
    let elsewhere = try TemporaryDirectory()
    let engine = try open { $0.backupFolders = [directory.path + "/missing", elsewhere.path] }
    guard case .checkpoint = try send(.checkpoint(target: elsewhere.path + "/copy")) else {
      throw Unexpected(what: "refused")
    }
    try engine.close()
  }

  @Test func `the place of a database that was renamed is that where it is now`() throws {
    let engine = try open()
    try files.createDirectory(directory.path + "/inner")
    let moved = directory.path + "/inner/db"
    try files.rename(path, to: moved)
    let sender = RequestSender(at: moved, patience: Self.patience)
    guard case .answer(.failed(let error)) = try sender.send(.checkpoint(target: directory.path + "/copy")) else {
      throw Unexpected(what: "made beside the old place")
    }
    #expect(error.code == .permissionDenied)
    guard case .answer(.checkpoint) = try sender.send(.checkpoint(target: directory.path + "/inner/copy")) else {
      throw Unexpected(what: "refused")
    }
    try engine.close()
  }

  private func last(_ path: String) -> String { path.split(separator: "/").last.map(String.init) ?? "" }
}
