internal import Synchronization
public import VarveEngine

/// One fault: which calls fail, from when, for how long, and how.
public struct Fault: Sendable {
  /// The kinds of calls that can fail.
  public enum Kind: String, Sendable, CaseIterable {
    /// Calls on names.
    case createFile, openFile, lock, rename, link, remove, createDirectory, removeDirectory, list, attributes
    /// More calls on names, and questions.
    case syncDirectory, freeSpace
    /// Calls on an open file.
    case size, read, write, truncate, sync, map
  }

  /// Only calls of these kinds count; nil: all.
  public var kinds: Set<Kind>?
  /// Only calls on paths that end so count.
  public var pathSuffix: String
  /// Calls that count and still succeed.
  public var skip: Int
  /// How many calls then fail.
  public var count: Int
  /// What they fail with: `.inputOutput` for EIO, `.noSpace` for ENOSPC.
  public var code: EngineError.Code
  /// A failing write writes half of its bytes first.
  public var writesHalf: Bool

  /// Describes a fault. Unless more is said, the next call of any kind fails once with EIO.
  public init(
    _ kinds: Set<Kind>? = nil, pathSuffix: String = "", skip: Int = 0, count: Int = 1,
    code: EngineError.Code = .inputOutput, writesHalf: Bool = false
  ) {
    self.kinds = kinds
    self.pathSuffix = pathSuffix
    self.skip = skip
    self.count = count
    self.code = code
    self.writesHalf = writesHalf
  }

  /// For `count`: for ever.
  public static let always = Int.max
}

/// Another file system of which chosen calls fail.
///
/// A test runs its program once without faults, reads `callCount`, and then runs it again with the
/// first, the second, the third call failing, once or for ever.
///
/// Safe from any thread.
public final class FaultInjectingFileSystem: FileSystem {
  private struct State {
    var faults: [Fault] = []
    var callCount = 0
    var failureCount = 0
    var interruption: Interruption?
    var countedInterruption: (callsLeft: Int, body: @Sendable () -> Void)?
  }

  /// Something that happens within a call.
  private struct Interruption: Sendable {
    let kind: Fault.Kind
    let pathSuffix: String
    let body: @Sendable () -> Void
  }

  private let base: any FileSystem
  private let mapsFiles: Bool
  private let state = Mutex(State())

  /// Wraps `base`; nothing fails until `inject`. Without `mapsFiles` all is written by calls, each of which
  /// can fail.
  public init(_ base: any FileSystem, mapsFiles: Bool = true) {
    self.base = base
    self.mapsFiles = mapsFiles
  }

  /// Adds a fault.
  public func inject(_ fault: Fault) { state.withLock { $0.faults.append(fault) } }

  /// Runs `body` once, on the thread and at the begin of the next call of this kind on such a path: what
  /// another thread does while a job is in the middle of its work, without threads.
  public func interruptNext(_ kind: Fault.Kind, pathSuffix: String, _ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.interruption = Interruption(kind: kind, pathSuffix: pathSuffix, body: body) }
  }

  /// Runs `body` once, before the call that comes after `count` more calls: what another process does at that
  /// moment.
  public func interrupt(afterCalls count: Int, _ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.countedInterruption = (count, body) }
  }

  /// Ends all faults.
  public func clear() { state.withLock { $0.faults = [] } }

  /// How many calls there were, the failed ones included.
  public var callCount: Int { state.withLock { $0.callCount } }

  /// How many calls the last fault still lets through before it fails one: how a test counts calls.
  public var skipsLeft: Int { state.withLock { $0.faults.last?.skip ?? 0 } }

  /// How many calls failed by a fault.
  public var failureCount: Int { state.withLock { $0.failureCount } }

  /// The fault that this call meets.
  private func fault(_ kind: Fault.Kind, _ path: String) -> Fault? {
    takeInterruption(kind, path)?.body()
    takeCountedInterruption()?()
    return state.withLock { state in
      state.callCount += 1
      var met: Fault?
      for index in state.faults.indices {
        let fault = state.faults[index]
        guard fault.kinds?.contains(kind) ?? true, path.hasSuffix(fault.pathSuffix) else { continue }
        if fault.skip > 0 {
          state.faults[index].skip -= 1
        } else if fault.count > 0 {
          if fault.count != Fault.always { state.faults[index].count -= 1 }
          met = met ?? fault
        }
      }
      if met != nil { state.failureCount += 1 }
      return met
    }
  }

  private func takeInterruption(_ kind: Fault.Kind, _ path: String) -> Interruption? {
    state.withLock { state in
      guard let found = state.interruption, found.kind == kind, path.hasSuffix(found.pathSuffix) else { return nil }
      state.interruption = nil
      return found
    }
  }

  private func takeCountedInterruption() -> (@Sendable () -> Void)? {
    state.withLock { state in
      guard let interruption = state.countedInterruption else { return nil }
      state.countedInterruption = interruption.callsLeft > 0 ? (interruption.callsLeft - 1, interruption.body) : nil
      return interruption.callsLeft == 0 ? interruption.body : nil
    }
  }

  fileprivate func check(_ kind: Fault.Kind, _ path: String) throws(EngineError) {
    if let fault = fault(kind, path) { throw Self.error(fault, kind, path) }
  }

  private static func error(_ fault: Fault, _ kind: Fault.Kind, _ path: String) -> EngineError {
    EngineError(fault.code, "simulated failure of \(kind.rawValue)", file: path)
  }

  /// Writes, or writes half and throws, or throws.
  fileprivate func write(_ file: any File, _ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    guard let fault = fault(.write, file.path) else { return unsafe try file.write(bytes, at: offset) }
    if fault.writesHalf {
      unsafe try file.write(UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count / 2)]), at: offset)
    }
    throw Self.error(fault, .write, file.path)
  }

  private func wrap(_ file: any File) -> any File { FaultInjectingFile(fileSystem: self, file: file) }

  // MARK: FileSystem

  /// As the file system below.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    try check(.createFile, path)
    return wrap(try base.createFile(path))
  }

  /// As the file system below.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    try check(.openFile, path)
    return wrap(try base.openFile(path, writable: writable))
  }

  /// As the file system below.
  public func lock(_ path: String) throws(EngineError) -> any FileLock {
    try check(.lock, path)
    return try base.lock(path)
  }

  /// As the file system below.
  public func machineSession() -> MachineSession? { base.machineSession() }

  /// As the file system below. A fault is found by the old path.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    try check(.rename, path)
    try base.rename(path, to: newPath)
  }

  /// As the file system below. A fault is found by the old path.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    try check(.link, path)
    try base.link(path, to: newPath)
  }

  /// As the file system below.
  public func remove(_ path: String) throws(EngineError) {
    try check(.remove, path)
    try base.remove(path)
  }

  /// As the file system below.
  public func createDirectory(_ path: String) throws(EngineError) {
    try check(.createDirectory, path)
    try base.createDirectory(path)
  }

  /// As the file system below.
  public func removeDirectory(_ path: String) throws(EngineError) {
    try check(.removeDirectory, path)
    try base.removeDirectory(path)
  }

  /// As the file system below.
  public func list(_ directory: String) throws(EngineError) -> [String] {
    try check(.list, directory)
    return try base.list(directory)
  }

  /// As the file system below.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    try check(.attributes, path)
    return try base.attributes(path)
  }

  /// As the file system below.
  public func syncDirectory(_ path: String) throws(EngineError) {
    try check(.syncDirectory, path)
    try base.syncDirectory(path)
  }

  /// As the file system below.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 {
    try check(.freeSpace, path)
    return try base.freeSpace(path)
  }

  /// As the file system below.
  public func supportsMapping(_ path: String) -> Bool { mapsFiles && base.supportsMapping(path) }
}

/// An open file whose calls may meet a fault.
private final class FaultInjectingFile: File {
  private let fileSystem: FaultInjectingFileSystem
  private let file: any File
  var path: String { file.path }

  init(fileSystem: FaultInjectingFileSystem, file: any File) {
    self.fileSystem = fileSystem
    self.file = file
  }

  func size() throws(EngineError) -> UInt64 {
    try fileSystem.check(.size, path)
    return try file.size()
  }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    try fileSystem.check(.read, path)
    return unsafe try file.read(into: buffer, at: offset)
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    unsafe try fileSystem.write(file, bytes, at: offset)
  }

  func truncate(to size: UInt64) throws(EngineError) {
    try fileSystem.check(.truncate, path)
    try file.truncate(to: size)
  }

  func sync() throws(EngineError) {
    try fileSystem.check(.sync, path)
    try file.sync()
  }

  func sync(first size: Int) throws(EngineError) {
    try fileSystem.check(.sync, path)
    try file.sync(first: size)
  }

  func startWriteback(offset: UInt64, size: UInt64) { file.startWriteback(offset: offset, size: size) }

  func dropCachedPages(offset: UInt64, size: UInt64) { file.dropCachedPages(offset: offset, size: size) }

  func map(size: Int) throws(EngineError) -> MappedFile {
    try fileSystem.check(.map, path)
    return try file.map(size: size)
  }

  func close() { file.close() }
}
