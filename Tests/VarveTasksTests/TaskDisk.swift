import EngineTestSupport
import Foundation
import Synchronization
import Varve
import VarveEngine
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks

/// A database on a disk in memory whose state after a crash can be drawn, with small memtables and segments.
enum TaskDisk {
  static let path = "/db"

  /// Opens the engine on a disk, with its own threads, or a reader of what another engine writes there.
  static func backend(_ disk: any FileSystem, follows: Bool = false) throws -> EngineBackend {
    var environment = EngineEnvironment.system
    environment.fileSystem = disk
    if follows {
      return EngineBackend(try Engine.follow(at: path, options: StorageSite.options, environment: environment))
    }
    return try EngineBackend(try Engine.open(at: path, options: StorageSite.options, environment: environment))
  }

  /// Opens a database whose background work is done in steps.
  static func open(_ disk: any FileSystem, seed: UInt64, _ definition: DatabaseDefinition) throws -> Database {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let engine = try Engine.open(at: path, options: StorageSite.options, environment: environment)
    return try Database.open(try EngineBackend(engine), path: path, definition: definition)
  }
}

/// The files of an inbox on a disk in memory. What a process does with them are operations of that disk.
struct CrashInboxFiles: InboxFiles {
  let disk: CrashFileSystem

  func exists(_ path: String) -> Bool { (try? disk.attributes(path)) != nil }
  func createDirectory(_ path: String) throws { if !exists(path) { try disk.createDirectory(path) } }
  func names(_ directory: String) -> [String] { (try? disk.list(directory)) ?? [] }

  func isFile(_ path: String) throws -> Bool { true }

  func size(_ path: String) throws -> Int {
    let file = try disk.openFile(path, writable: false)
    defer { file.close() }
    return Int(try file.size())
  }

  func modified(_ path: String) -> Date? { nil }

  func read(_ path: String) throws -> [UInt8] {
    let file = try disk.openFile(path, writable: false)
    defer { file.close() }
    var bytes = [UInt8](repeating: 0, count: Int(try file.size()))
    // Safety: the file system fills the buffer, and does not keep it.
    let count = try unsafe bytes.withUnsafeMutableBytes { unsafe try file.read(into: $0, at: 0) }
    return Array(bytes.prefix(count))
  }

  func write(_ bytes: [UInt8], _ path: String) throws {
    let isThere = exists(path)
    let file = try isThere ? disk.openFile(path, writable: true) : disk.createFile(path)
    defer { file.close() }
    if isThere { try file.truncate(to: 0) }
    // Safety: the file system copies the bytes.
    try unsafe bytes.withUnsafeBytes { unsafe try file.write($0, at: 0) }
  }

  func sync(_ path: String) throws {
    let file = try disk.openFile(path, writable: true)
    defer { file.close() }
    try file.sync()
  }

  func move(_ path: String, to newPath: String) throws { try disk.rename(path, to: newPath) }
  func remove(_ path: String) throws { try disk.remove(path) }
  func syncDirectory(_ path: String) throws { try disk.syncDirectory(path) }
}
