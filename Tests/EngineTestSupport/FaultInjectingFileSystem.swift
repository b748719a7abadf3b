internal import Synchronization
public import VarveEngine

/// A fault: which calls fail, from which call on, how many of them, and with which error.
public struct Fault: Sendable {
  /// The kinds of calls that can fail.
  public enum Kind: String, Sendable, CaseIterable {
    /// Calls on names.
    case createFile, openFile, lock, rename, link, remove, createDirectory, removeDirectory, list, attributes
    /// Further calls on names, and queries.
    case syncDirectory, freeSpace
    /// Calls on an open file.
    case size, read, write, truncate, sync, map
  }

  /// The kinds of calls that the fault applies to, or `nil` for all.
  public var kinds: Set<Kind>?
  /// The end of the paths that the fault applies to.
  public var pathSuffix: String
  /// The number of matching calls that still succeed.
  public var skip: Int
  /// The number of matching calls that then fail.
  public var count: Int
  /// The error of the failing calls: `.inputOutput` for EIO, `.noSpace` for ENOSPC.
  public var code: EngineError.Code
  /// Whether a failing write writes half of its bytes first.
  public var writesHalf: Bool

  /// Creates a fault. By default, the next call of any kind fails once with EIO.
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

  /// A value for `count`: every later call fails.
  public static let always = Int.max
}

/// A file system that forwards to another one and makes chosen calls fail.
///
/// A test runs its program once without faults, reads `callCount`, and then runs it again with the first, the second,
/// the third call failing, either once or permanently.
///
/// Safe from any thread.
public final class FaultInjectingFileSystem: FileSystem {
  private struct State {
    var faults: [Fault] = []
    var callCount = 0
    var failureCount = 0
    var interruption: Interruption?
    var countedInterruption: (callsLeft: Int, body: @Sendable () -> Void)?
    var locks: [HeldLock] = []
  }

  /// A lock, which ends with the last reference of its holder.
  private struct HeldLock {
    weak var lock: (any FileLock)?
  }

  /// A function that runs once within a call.
  private struct Interruption: Sendable {
    let kind: Fault.Kind
    let pathSuffix: String
    let body: @Sendable () -> Void
  }

  private let base: any FileSystem
  private let mapsFiles: Bool
  private let session: MachineSession?
  private let state = Mutex(State())

  /// Wraps `base`. No call fails before `inject` is called.
  ///
  /// If `mapsFiles` is false, everything is written by calls, each of which can fail. If `session` is not `nil`,
  /// engines share pages as if the files were on a machine in that session.
  public init(_ base: any FileSystem, mapsFiles: Bool = true, session: MachineSession? = nil) {
    self.base = base
    self.mapsFiles = mapsFiles
    self.session = session
  }

  /// Adds a fault to those that are active.
  public func inject(_ fault: Fault) { state.withLock { $0.faults.append(fault) } }

  /// Runs `body` once, at the start of the next call of this kind on a path that ends in `pathSuffix`, on the thread
  /// of that call.
  ///
  /// This simulates another thread that acts while a job is in the middle of its work, without threads.
  public func interruptNext(_ kind: Fault.Kind, pathSuffix: String, _ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.interruption = Interruption(kind: kind, pathSuffix: pathSuffix, body: body) }
  }

  /// Runs `body` once, before the call that follows `count` more calls.
  ///
  /// This simulates another process that acts at that moment.
  public func interrupt(afterCalls count: Int, _ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.countedInterruption = (count, body) }
  }

  /// Cancels an interruption that `interrupt` announced.
  public func interruptNever() { state.withLock { $0.countedInterruption = nil } }

  /// Makes every later call fail, and releases all locks, as if the process had been killed.
  public func kill() {
    inject(Fault(count: Fault.always))
    let locks = state.withLock { state in
      defer { state.locks = [] }
      return state.locks
    }
    for held in locks { held.lock?.release() }
  }

  /// Removes all faults.
  public func clear() { state.withLock { $0.faults = [] } }

  /// The number of calls so far, including the failed ones.
  public var callCount: Int { state.withLock { $0.callCount } }

  /// The number of calls that the last fault still lets succeed before it fails one. Tests count calls with it.
  public var skipsLeft: Int { state.withLock { $0.faults.last?.skip ?? 0 } }

  /// The number of calls that a fault made fail.
  public var failureCount: Int { state.withLock { $0.failureCount } }

  /// Counts a call, and returns the fault that applies to it, if any.
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

  /// Forwards a write; if a fault applies, writes half of the bytes or none, and throws.
  fileprivate func write(_ file: any File, _ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    guard let fault = fault(.write, file.path) else { return unsafe try file.write(bytes, at: offset) }
    if fault.writesHalf {
      unsafe try file.write(UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count / 2)]), at: offset)
    }
    throw Self.error(fault, .write, file.path)
  }

  private func wrap(_ file: any File) -> any File { FaultInjectingFile(fileSystem: self, file: file) }

  // MARK: FileSystem

  /// Calls the wrapped file system, unless a fault applies.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    try check(.createFile, path)
    return wrap(try base.createFile(path))
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    try check(.openFile, path)
    return wrap(try base.openFile(path, writable: writable))
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func lock(_ path: String) throws(EngineError) -> any FileLock {
    try check(.lock, path)
    let lock = try base.lock(path)
    state.withLock { state in
      state.locks.removeAll { $0.lock == nil }
      state.locks.append(HeldLock(lock: lock))
    }
    return lock
  }

  /// Returns the session that `init` was called with, or that of the wrapped file system.
  public func machineSession() -> MachineSession? { session ?? base.machineSession() }

  /// Calls the wrapped file system, unless a fault applies, which is matched against the old path.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    try check(.rename, path)
    try base.rename(path, to: newPath)
  }

  /// Calls the wrapped file system, unless a fault applies, which is matched against the old path.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    try check(.link, path)
    try base.link(path, to: newPath)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func remove(_ path: String) throws(EngineError) {
    try check(.remove, path)
    try base.remove(path)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func createDirectory(_ path: String) throws(EngineError) {
    try check(.createDirectory, path)
    try base.createDirectory(path)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func removeDirectory(_ path: String) throws(EngineError) {
    try check(.removeDirectory, path)
    try base.removeDirectory(path)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func list(_ directory: String) throws(EngineError) -> [String] {
    try check(.list, directory)
    return try base.list(directory)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    try check(.attributes, path)
    return try base.attributes(path)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func syncDirectory(_ path: String) throws(EngineError) {
    try check(.syncDirectory, path)
    try base.syncDirectory(path)
  }

  /// Calls the wrapped file system, unless a fault applies.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 {
    try check(.freeSpace, path)
    return try base.freeSpace(path)
  }

  /// Calls the wrapped file system; returns false if `mapsFiles` is false.
  public func supportsMapping(_ path: String) -> Bool { mapsFiles && base.supportsMapping(path) }
}

/// An open file whose calls may fail because of a fault.
private final class FaultInjectingFile: ForwardingFile {
  private let fileSystem: FaultInjectingFileSystem
  let base: any File

  init(fileSystem: FaultInjectingFileSystem, file: any File) {
    self.fileSystem = fileSystem
    base = file
  }

  func size() throws(EngineError) -> UInt64 {
    try fileSystem.check(.size, path)
    return try base.size()
  }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    try fileSystem.check(.read, path)
    return unsafe try base.read(into: buffer, at: offset)
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    unsafe try fileSystem.write(base, bytes, at: offset)
  }

  func truncate(to size: UInt64) throws(EngineError) {
    try fileSystem.check(.truncate, path)
    try base.truncate(to: size)
  }

  func sync() throws(EngineError) {
    try fileSystem.check(.sync, path)
    try base.sync()
  }

  func sync(first size: Int) throws(EngineError) {
    try fileSystem.check(.sync, path)
    try base.sync(first: size)
  }

  func map(size: Int) throws(EngineError) -> MappedFile {
    try fileSystem.check(.map, path)
    return try base.map(size: size)
  }
}
