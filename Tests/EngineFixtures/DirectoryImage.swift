import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// The files of a database's directory, byte for byte.
struct DirectoryImage: Equatable {
  static let directory = "/db"
  var files: [String: [UInt8]]

  /// Reads the present files of a directory.
  init(_ fileSystem: any FileSystem, at directory: String = directory) throws {
    files = [:]
    for name in try fileSystem.list(directory) {
      let file = try fileSystem.openFile(directory + "/" + name, writable: false)
      defer { file.close() }
      files[name] = try Manifest.readAll(file).bytes
    }
  }

  /// Returns an in-memory file system with these files and no others.
  func makeFileSystem() throws -> MemoryFileSystem {
    let fileSystem = MemoryFileSystem()
    try fileSystem.createDirectory(Self.directory)
    for (name, bytes) in files { try Self.write(bytes, to: Self.path(name), on: fileSystem) }
    return fileSystem
  }

  static func path(_ name: String) -> String { directory + "/" + name }

  /// Creates a file with these bytes, replacing an existing one.
  static func write(_ bytes: [UInt8], to path: String, on fileSystem: any FileSystem) throws {
    if try fileSystem.attributes(path) != nil { try fileSystem.remove(path) }
    let file = try fileSystem.createFile(path)
    defer { file.close() }
    try bytes.withByteView { (view) throws(EngineError) in try unsafe file.write(view.buffer, at: 0) }
  }

  /// Returns the name of the one file with this prefix and suffix. Throws if there is not exactly one.
  func only(prefix: String = "", suffix: String = "") throws -> String {
    let names = files.keys.filter { $0.hasPrefix(prefix) && $0.hasSuffix(suffix) }
    guard names.count == 1 else { throw EngineError(.invalidArgument, "\(names) where one name was expected") }
    return names[0]
  }

  /// Returns the names with this suffix, sorted.
  func names(suffix: String) -> [String] { files.keys.filter { $0.hasSuffix(suffix) }.sorted() }

  /// Returns an environment whose background work is stepped, in an order drawn from `seed`.
  static func environment(_ fileSystem: any FileSystem, seed: UInt64 = 1) -> EngineEnvironment {
    let random = Mutex(SeededRandom(seed: seed))
    let clock = ManualClock()
    return EngineEnvironment(
      fileSystem: fileSystem, clock: clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in SteppedExecutor(seed: seed, clock: clock) })
  }
}
