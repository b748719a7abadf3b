import EngineTestSupport
import Foundation
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests that each reason for a failed opening has its own error code, and is described once.
struct ErrorCodeTests {
  private static func error(_ body: () throws -> Void) -> DatabaseError? {
    do { try body() } catch { return error as? DatabaseError }
    return nil
  }

  private static func open(_ path: String, _ change: (inout DatabaseOptions) -> Void = { _ in }) -> DatabaseError? {
    var options = DatabaseOptions()
    change(&options)
    return error { try OpenDatabase.close(try Database.open(at: path, options: options)) }
  }

  @Test func `a database that is open elsewhere is locked`() throws {
    let directory = try TemporaryDirectory()
    let first = try OpenDatabase.database(in: directory)
    let error = Self.open(directory.path + "/database")
    #expect(error?.code == .locked)
    #expect((error?.cause as? EngineError)?.code == .locked, "the cause stays the engine's error")
    let text = try #require(error?.description)
    #expect(text.hasPrefix("locked: ") && text.hasSuffix("(\(directory.path)/database/LOCK)"), "\(text)")
    #expect(text.components(separatedBy: "holds the lock").count == 2, "it is said once: \(text)")
    #expect(text.components(separatedBy: "locked").count == 2, "the code is said once: \(text)")
    try OpenDatabase.close(first)
    #expect(Self.open(directory.path + "/database") == nil)
  }

  @Test func `a file at the path is reported by each way of opening`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/file"
    try Data("someone's".utf8).write(to: URL(fileURLWithPath: path))
    #expect(Self.open(path)?.code == .pathIsFile)
    #expect(Self.open(path) { $0.isReadOnly = true }?.code == .pathIsFile)
    #expect(Self.open(path) { $0.follows = true }?.code == .pathIsFile)
    #expect(Self.open(path) { $0.onCorruption = .renameAside }?.code == .pathIsFile)
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("someone's".utf8), "it is as it was")
  }

  @Test func `a directory with something else in it is not a database, and one that is missing is not found`()
    throws
  {
    let directory = try TemporaryDirectory()
    let files = directory.path + "/files"
    try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: false)
    try Data().write(to: URL(fileURLWithPath: files + "/letter.txt"))
    #expect(Self.open(files)?.code == .notADatabase)
    #expect(Self.open(files) { $0.createsIfMissing = false }?.code == .notADatabase)
    // A database that only the engine has opened contains no objects.
    let engine = try Engine.open(at: directory.path + "/engine")
    try engine.close()
    #expect(Self.open(directory.path + "/engine") { $0.isReadOnly = true }?.code == .notADatabase)
    #expect(Self.open(directory.path + "/missing") { $0.createsIfMissing = false }?.code == .notFound)
  }

  @Test func `a limit of the engine has the code of the value that was too long`() throws {
    let engine = try Engine.open(at: "/limits", environment: .inMemory())
    let family = try engine.createFamily("f")
    func refused(_ body: (inout WriteBatch) throws -> Void) -> DatabaseError? {
      do {
        var batch = WriteBatch()
        try body(&batch)
      } catch {
        return (error as? EngineError).map { DatabaseError($0) }
      }
      return nil
    }
    let long = [UInt8](repeating: 1, count: 70_000)
    let key = refused { try $0.put(long, [1], in: family) }
    #expect(key?.code == .keyTooLong)
    #expect((key?.cause as? EngineError)?.code == .limitExceeded)
    #expect(refused { try $0.deleteRange(from: [1], to: long, in: family) }?.code == .keyTooLong)
    #expect(DatabaseError(EngineError(.limitExceeded, "a table").exceeding(.value)).code == .valueTooLong)
    #expect(DatabaseError(EngineError(.limitExceeded, "a table").exceeding(.batch)).code == .batchTooLarge)
    #expect(DatabaseError(EngineError(.limitExceeded, "too many families")).code == .storage)
    try engine.close()
  }

  @Test func `a description has the chain of causes once, however often the error is rethrown`() {
    let below = EngineError(.inputOutput, "write failed: no such device", file: "/db/3.log", offset: 17)
    let error = DatabaseError(EngineError(.readOnly, "an earlier write failed", cause: below, file: "/db"))
    let text = "an earlier write failed (/db); because inputOutput: write failed: no such device (/db/3.log at byte 17)"
    #expect(error.description == "readOnly: " + text)
    let about = error.about(RowKey(collection: "c", bytes: []))
    #expect(about.description.hasPrefix("readOnly: \(text) (collection \"c\""), "\(about)")
    let other = DatabaseError(.doomed, "an extension failed", cause: error)
    #expect(other.description == "doomed: an extension failed; because readOnly: " + text)
  }
}
