internal import EngineTestSupport
internal import Synchronization
public import Varve
public import VarveEngine

/// The storages that suites run over.
public enum StorageKind: String, CaseIterable, Sendable {
  /// The engine on the real disk.
  case disk
  /// The engine on files in memory.
  case memory
  /// Sorted arrays.
  case toy
}

/// The location of a storage of some kind, which can be opened, closed and opened again, and left in the state after
/// the death of its process.
///
/// Memtables and segments are small, so that a test which writes a little has tables, too. Not thread-safe: an
/// instance is used by one thread.
public final class StorageSite {
  /// The kind of the storage.
  public let kind: StorageKind
  /// The faults that backends of the toy kind are opened with. Later changes are made through the backend.
  public var faults = ToyFaults()
  /// The limits of the toy kind.
  public var limits = ToyBackend.smallLimits
  private let directory: TemporaryDirectory?
  private let fileSystem: any FileSystem
  private var path: String
  private var toy = ToyStorage()
  private static let count = Atomic<Int>(0)

  /// Creates a new location, which is removed when the instance is deallocated.
  public init(_ kind: StorageKind) throws {
    self.kind = kind
    directory = kind == .disk ? try TemporaryDirectory() : nil
    fileSystem = kind == .disk ? PosixFileSystem() : MemoryFileSystem()
    path = (directory?.path ?? "") + "/db"
  }

  private init(_ original: StorageSite, path: String, toy: ToyStorage) {
    kind = original.kind
    faults = original.faults
    limits = original.limits
    directory = original.directory
    fileSystem = original.fileSystem
    self.path = path
    self.toy = toy
  }

  // MARK: - Opening

  /// Opens the storage for writing.
  public func open() throws -> any StorageBackend {
    if kind == .toy { return ToyBackend(toy, limits: limits, faults: faults) }
    return try EngineBackend(
      try Engine.open(at: path, options: Self.options, environment: environment), isInMemory: kind == .memory)
  }

  /// Opens a read-only snapshot of the present state. A toy backend follows the writer instead.
  public func openReadOnly() throws -> any StorageBackend {
    if kind == .toy { return ToyBackend(toy, limits: limits, isReadOnly: true) }
    var options = Self.options
    options.readOnly = true
    return try EngineBackend(try Engine.open(at: path, options: options, environment: environment))
  }

  /// Opens the storage for reading while another backend has it open for writing.
  public func follow() throws -> any StorageBackend {
    if kind == .toy { return try openReadOnly() }
    return EngineBackend(try Engine.follow(at: path, options: Self.options, environment: environment))
  }

  /// Options with small memtables and segments.
  public static var options: EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 64 << 10
    options.backgroundThreads = 1
    return options
  }

  private var environment: EngineEnvironment {
    var environment = EngineEnvironment.system
    environment.fileSystem = fileSystem
    return environment
  }

  /// Closes a backend. In many tests this is the last use of the site, which keeps the site alive until here.
  public func close(_ backend: any StorageBackend) throws { try backend.close() }

  // MARK: - Leaving

  /// Simulates the death of the process before the next `open`.
  ///
  /// For the engine, the next `open` opens a copy of the files; backends that are open continue with the original
  /// files and should be closed. For the toy kind, open backends end, and what was not durable is lost.
  public func abandon() throws {
    if kind == .toy { return toy.restart() }
    let target = makePath()
    try fileSystem.copyDirectory(path, to: target)
    path = target
  }

  /// Returns a new path for a checkpoint, next to the storage.
  public func makePath() -> String {
    (directory?.path ?? "") + "/copy\(Self.count.add(1, ordering: .relaxed).newValue)"
  }

  /// Returns the location of the checkpoint that a backend made at a path.
  public func checkpoint(at path: String) throws -> StorageSite {
    guard kind == .toy else { return StorageSite(self, path: path, toy: toy) }
    guard let copy = toy.copy(at: path) else { throw DatabaseError(.notFound, "no checkpoint at \(path)") }
    return StorageSite(self, path: path, toy: copy)
  }
}

extension FileSystem {
  /// Copies the files of a directory as they are at one moment; starts again if the files changed meanwhile.
  fileprivate func copyDirectory(_ source: String, to target: String) throws(EngineError) {
    try createDirectory(target)
    while true {
      let before = try sizes(of: source)
      for name in try list(target) { try remove("\(target)/\(name)") }
      do throws(EngineError) {
        for name in before.keys { try copyFile("\(source)/\(name)", to: "\(target)/\(name)") }
      } catch {
        // The file was removed between the listing and the copy, so the directory is listed again.
        guard error.code == .notFound else { throw error }
        continue
      }
      if try sizes(of: source) == before { return }
    }
  }

  private func sizes(of directory: String) throws(EngineError) -> [String: UInt64] {
    var sizes: [String: UInt64] = [:]
    for name in try list(directory) { sizes[name] = try attributes("\(directory)/\(name)")?.size }
    return sizes
  }

  private func copyFile(_ source: String, to target: String) throws(EngineError) {
    let from = try openFile(source, writable: false)
    defer { from.close() }
    let into = try createFile(target)
    defer { into.close() }
    let size = Int(try from.size())
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(size, 1), alignment: 16)
    defer { unsafe buffer.deallocate() }
    let count =
      size > 0 ? unsafe try from.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]), at: 0) : 0
    // Safety: the first `count` bytes were read into the buffer, which lives until the end of the function.
    unsafe try into.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: 0)
  }
}
