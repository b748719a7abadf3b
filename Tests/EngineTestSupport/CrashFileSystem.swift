internal import Synchronization
public import VarveEngine

/// An in-memory file system that loses power: the worst disk that the contract of `FileSystem` allows.
///
/// Each operation that changes the disk, or what of it is durable, and each store through a mapping has a number,
/// from 1. A test runs a program once and receives a `CrashPoint` from `observe` at the operations that it chooses.
/// It then opens the program again on as many images of each crash point as it needs:
///
///     let disk = CrashFileSystem(seed: 1)
///     disk.observe { operation, capture in points.append((capture(), acknowledged)) }
///     ... run ...
///     let found = points[7].image(seed: 3, policy: .keepRandomSectors)
///
/// A test may also stop the program itself: `crashAfter(operation: 100)`, run, `crashImage`.
///
/// # Invariants
/// 1. The same seed and the same calls give the same numbers, images and `traceHash`.
/// 2. After a crash nothing changes any more: every call throws, and every store is ignored.
/// 3. An image shares unchanged pages with the disk that it was taken from, and no other state.
///
/// # Concurrency
/// Safe from any thread: one mutex guards the state. Observers are called outside of it, before the operation.
public final class CrashFileSystem: FileSystem {
  /// A function that is called before a numbered operation; `capture` returns the disk with the operation in
  /// progress.
  public typealias Observer = @Sendable (_ operation: CrashOperation, _ capture: () -> CrashPoint) -> Void

  /// The memory of a mapping, which is updated when the file is written.
  ///
  /// # Safety
  /// `base` has `size` bytes as long as the entry is in the table.
  @safe
  private struct Mapping: @unchecked Sendable {
    // Sendable: the file system touches it under the mutex only. The program reads the same bytes, and is responsible
    // for its own accesses.
    let inode: Int
    let base: UnsafeMutableRawPointer
    let size: Int
  }

  /// The effect that a call is about to have.
  ///
  /// # Safety
  /// The bytes belong to the caller: an action must not outlive the call.
  @safe
  private enum Action {
    case names(CrashDisk.Change)
    case write(inode: Int, bytes: UnsafeRawBufferPointer, offset: Int)
    case store(inode: Int, bytes: UnsafeRawBufferPointer, offset: Int)
    case truncate(inode: Int, size: Int)
    case sync(inode: Int, first: Int?)
    case failSync(inode: Int)
    case syncDirectory(Int)

    /// A copy of the action for a crash point, which outlives the call.
    var effect: CrashPoint.Effect {
      switch self {
      case .names(let change): .names(change)
      case .write(let inode, let bytes, let offset): .write(inode: inode, bytes: unsafe [UInt8](bytes), offset: offset)
      case .store(let inode, let bytes, let offset): .store(inode: inode, bytes: unsafe [UInt8](bytes), offset: offset)
      case .truncate(let inode, let size): .truncate(inode: inode, size: size)
      case .sync, .failSync, .syncDirectory: .none
      }
    }
  }

  private struct State: Sendable {
    var disk: CrashDisk
    var random: SeededRandom
    var trace = TraceHash()
    var operationCount = 0
    var crashOperation: Int?
    var crashPoint: CrashPoint?
    var observer: Observer?
    var openCounts: [Int: Int] = [:]
    var mappings: [Int: Mapping] = [:]
    var mappingNext = 0
    var locked: Set<Int> = []
    var failingSync: (suffix: String, skip: Int, count: Int)?
    var failedSyncCount = 0
  }

  private let state: Mutex<State>

  /// Creates an empty disk. The seed chooses which earlier states of a sector are remembered.
  public convenience init(seed: UInt64 = 0, mapsFiles: Bool = true) {
    var disk = CrashDisk()
    disk.mapsFiles = mapsFiles
    self.init(disk: disk, seed: seed)
  }

  init(disk: CrashDisk, seed: UInt64) { state = Mutex(State(disk: disk, random: SeededRandom(seed: seed))) }

  // MARK: Crashes

  /// The number of numbered operations so far.
  public var operationCount: Int { state.withLock { $0.operationCount } }

  /// A hash of all calls so far: their kind, path, offset and size, and the content that was written or read.
  public var traceHash: UInt64 { state.withLock { $0.trace.value } }

  /// The number of files that are kept, including those without a name.
  public var fileCount: Int { state.withLock { $0.disk.inodes.count } }

  /// Cuts the power while operation `number` is in progress: it and every later call throw.
  public func crashAfter(operation number: Int) { state.withLock { $0.crashOperation = number } }

  /// Cuts the power now.
  public func crash() {
    state.withLock { state in
      if state.crashPoint == nil { state.crashPoint = CrashPoint(operation: nil, disk: state.disk, effect: .none) }
    }
  }

  /// Whether the power is gone.
  public var hasCrashed: Bool { state.withLock { $0.crashPoint != nil } }

  /// The state at the crash, or the present state if there was none.
  public var crashPoint: CrashPoint {
    state.withLock { $0.crashPoint ?? CrashPoint(operation: nil, disk: $0.disk, effect: .none) }
  }

  /// Returns an image of the disk after the crash, or of the present state if there was none.
  public func crashImage(seed: UInt64, policy: CrashPolicy) -> CrashFileSystem {
    crashPoint.image(seed: seed, policy: policy)
  }

  /// Sets a function that is called before each numbered operation; `nil` removes it.
  public func observe(_ observer: Observer?) { state.withLock { $0.observer = observer } }

  /// Makes the next `count` syncs fail for files whose path ends in `suffix`, after `skip` that succeed.
  ///
  /// Reads still return the bytes that were written before, but no later sync makes them durable, as on Linux.
  public func failSyncs(ofPathsEndingIn suffix: String = "", after skip: Int = 0, count: Int = 1) {
    state.withLock { $0.failingSync = (suffix, skip, count) }
  }

  /// The number of syncs that failed because of `failSyncs`.
  public var failedSyncCount: Int { state.withLock { $0.failedSyncCount } }

  // MARK: Names

  /// Creates a file. Throws `.alreadyExists`.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    let number = try perform(.createFile, path) { (state) throws(EngineError) in
      let entry = CrashDisk.Entry(number: state.disk.makeNumber(), isDirectory: false)
      return (entry.number, .names(CrashDisk.Change(steps: [(try state.disk.freeLocation(path), entry)])))
    }
    return open(path, number, isWritable: true)
  }

  /// Opens an existing file.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let number = try look("open", path) { (state) throws(EngineError) in try state.disk.file(path) }
    return open(path, number, isWritable: writable)
  }

  private func open(_ path: String, _ number: Int, isWritable: Bool) -> CrashFile {
    state.withLock { $0.openCounts[number, default: 0] += 1 }
    return CrashFile(fileSystem: self, path: path, number: number, isWritable: isWritable)
  }

  /// Takes the exclusive lock of a file, which is created if it is missing. Throws `.locked`.
  public func lock(_ path: String) throws(EngineError) -> any FileLock {
    if try attributes(path) == nil { try createFile(path).close() }
    let number = try look("lock", path) { (state) throws(EngineError) -> Int in
      let number = try state.disk.file(path)
      guard state.locked.insert(number).inserted else {
        throw EngineError(.locked, "this process holds the lock already", file: path)
      }
      return number
    }
    return CrashFileLock(fileSystem: self, number: number)
  }

  func unlock(_ number: Int) { _ = state.withLock { $0.locked.remove(number) } }

  /// Renames a file or directory. An existing file with the new name is replaced.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    try perform(.rename, path) { (state) throws(EngineError) in
      ((), .names(try state.disk.renameChange(path, to: newPath)))
    }
  }

  /// Gives a file a second name. Throws `.alreadyExists`.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    try perform(.link, path) { (state) throws(EngineError) in
      let entry = CrashDisk.Entry(number: try state.disk.file(path), isDirectory: false)
      return ((), .names(CrashDisk.Change(steps: [(try state.disk.freeLocation(newPath), entry)])))
    }
  }

  /// Removes a name. Open files stay usable.
  public func remove(_ path: String) throws(EngineError) {
    try perform(.remove, path) { (state) throws(EngineError) in
      _ = try state.disk.file(path)
      return ((), .names(CrashDisk.Change(steps: [(try state.disk.location(path), nil)])))
    }
  }

  /// Creates a directory. Throws `.alreadyExists`.
  public func createDirectory(_ path: String) throws(EngineError) {
    try perform(.createDirectory, path) { (state) throws(EngineError) in
      let entry = CrashDisk.Entry(number: state.disk.makeNumber(), isDirectory: true)
      return ((), .names(CrashDisk.Change(steps: [(try state.disk.freeLocation(path), entry)])))
    }
  }

  /// Removes an empty directory.
  public func removeDirectory(_ path: String) throws(EngineError) {
    try perform(.removeDirectory, path) { (state) throws(EngineError) in
      let number = try state.disk.directory(path)
      guard number != CrashDisk.root, state.disk.directories[number]?.isEmpty ?? true else {
        throw EngineError(.inputOutput, "the directory is not empty", file: path)
      }
      return ((), .names(CrashDisk.Change(steps: [(try state.disk.location(path), nil)])))
    }
  }

  /// Returns the names in a directory, sorted, so that runs are repeatable.
  public func list(_ directory: String) throws(EngineError) -> [String] {
    try look("list", directory) { (state) throws(EngineError) in
      (state.disk.directories[try state.disk.directory(directory)] ?? [:]).keys.sorted()
    }
  }

  /// Returns the attributes of a file or directory, or `nil` if the path does not exist.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    try look("attributes", path) { (state) throws(EngineError) in
      // A path whose parent directory is missing does not exist either.
      guard let found = try? state.disk.entry(path) else { return nil }
      let size = found.isDirectory ? 0 : state.disk.inodes[found.number]?.current.size ?? 0
      return FileAttributes(isDirectory: found.isDirectory, size: UInt64(size))
    }
  }

  /// Makes the entries of a directory durable.
  public func syncDirectory(_ path: String) throws(EngineError) {
    try perform(.syncDirectory, path) { (state) throws(EngineError) in
      ((), .syncDirectory(try state.disk.directory(path)))
    }
  }

  /// Returns a terabyte: this disk is never full (see `FaultInjectingFileSystem`).
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 { 1 << 40 }

  /// Returns the value that `init` was called with.
  public func supportsMapping(_ path: String) -> Bool { state.withLock { $0.disk.mapsFiles } }
}

// MARK: Open files

extension CrashFileSystem {
  func closeFile(_ number: Int) {
    state.withLock { state in
      let count = state.openCounts[number, default: 1] - 1
      state.openCounts[number] = count > 0 ? count : nil
    }
  }

  func size(_ number: Int, _ path: String) throws(EngineError) -> Int {
    try look("size", path) { (state) throws(EngineError) in state.disk.inodes[number]?.current.size ?? 0 }
  }

  func read(
    _ number: Int, _ path: String, into buffer: UnsafeMutableRawBufferPointer, at offset: Int
  ) throws(EngineError) -> Int {
    try look("read", path) { (state) throws(EngineError) in
      let count = unsafe state.disk.inodes[number]?.current.read(into: buffer, at: offset) ?? 0
      state.trace.add(UInt64(offset))
      unsafe state.trace.add(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      return count
    }
  }

  func write(_ number: Int, _ path: String, _ bytes: UnsafeRawBufferPointer, at offset: Int) throws(EngineError) {
    try perform(.write, path, offset, bytes.count) { (_) throws(EngineError) in
      unsafe ((), .write(inode: number, bytes: bytes, offset: offset))
    }
  }

  func truncate(_ number: Int, _ path: String, to size: Int) throws(EngineError) {
    try perform(.truncate, path, size) { (_) throws(EngineError) in ((), .truncate(inode: number, size: size)) }
  }

  func sync(_ number: Int, _ path: String, first: Int?) throws(EngineError) {
    let isFailing = try perform(.sync, path, first ?? 0) { (state) throws(EngineError) in
      guard let failing = state.failingSync, path.hasSuffix(failing.suffix) else {
        return (false, .sync(inode: number, first: first))
      }
      guard failing.skip == 0 else {
        state.failingSync?.skip -= 1
        return (false, .sync(inode: number, first: first))
      }
      return (true, .failSync(inode: number))
    }
    if isFailing { throw EngineError(.inputOutput, "simulated EIO of a sync", file: path) }
  }

  func map(_ number: Int, _ path: String, size: Int) throws(EngineError) -> MappedFile {
    let key = try look("map", path) { (state) throws(EngineError) -> Int in
      let present = state.disk.inodes[number]?.current.size ?? 0
      guard size > 0, size <= present else {
        throw EngineError(.invalidArgument, "map \(size) bytes of a file that has \(present)", file: path)
      }
      let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
      guard let base = memory.baseAddress else { fatalError("no memory for a mapping of \(size) bytes") }
      _ = unsafe state.disk.inodes[number]?.current.read(into: memory, at: 0)
      state.mappingNext += 1
      unsafe state.mappings[state.mappingNext] = Mapping(inode: number, base: base, size: size)
      return state.mappingNext
    }
    let base = state.withLock { unsafe UInt(bitPattern: $0.mappings[key]?.base) }
    guard let base = unsafe UnsafeMutableRawPointer(bitPattern: base) else { fatalError("a mapping ended early") }
    let observer = CrashStoreObserver(fileSystem: self, number: number, path: path)
    return unsafe MappedFile(base: base, size: size, observer: observer) { base, _ in
      self.state.withLock { $0.mappings[key] = nil }
      unsafe base.deallocate()
    }
  }

  func store(_ number: Int, _ path: String, _ bytes: UnsafeRawBufferPointer, at offset: Int) {
    // A processor cannot report an error, so a store after the crash is ignored.
    try? perform(.store, path, offset, bytes.count) { (_) throws(EngineError) in
      unsafe ((), .store(inode: number, bytes: bytes, offset: offset))
    }
  }
}

// MARK: Every call

extension CrashFileSystem {
  /// Performs a call that does not change the disk. It has no number.
  private func look<R>(
    _ name: String, _ path: String, _ body: (inout State) throws(EngineError) -> R
  ) throws(EngineError) -> R {
    try locked { (state) throws(EngineError) in
      try Self.checkPower(state, path)
      state.trace.add(name)
      state.trace.add(path)
      return try body(&state)
    }
  }

  /// Performs a numbered operation. `prepare` returns its effect, or throws; an operation that throws has no number.
  private func perform<R>(
    _ kind: CrashOperation.Kind, _ path: String, _ offset: Int = 0, _ size: Int = 0,
    _ prepare: (inout State) throws(EngineError) -> (R, Action)
  ) throws(EngineError) -> R {
    func operation(_ state: State) -> CrashOperation {
      CrashOperation(number: state.operationCount + 1, kind: kind, path: path, offset: offset, size: size)
    }
    try notifyObserver(operation, prepare)
    return try locked { (state) throws(EngineError) in
      try Self.checkPower(state, path)
      let (result, action) = try prepare(&state)
      let operation = operation(state)
      state.operationCount += 1
      Self.add(operation, action, to: &state.trace)
      if state.crashOperation == operation.number {
        state.crashPoint = CrashPoint(operation: operation, disk: state.disk, effect: action.effect)
      }
      try Self.checkPower(state, path)
      Self.apply(action, to: &state)
      return result
    }
  }

  private func notifyObserver<R>(
    _ operation: (State) -> CrashOperation, _ prepare: (inout State) throws(EngineError) -> (R, Action)
  ) throws(EngineError) {
    guard let observer = state.withLock({ $0.crashPoint == nil ? $0.observer : nil }) else { return }
    let (described, effect, numberNext) = try locked { (state) throws(EngineError) in
      var trial = state
      let effect = try prepare(&trial).1.effect
      return (operation(state), effect, trial.disk.numberNext)
    }
    observer(described) {
      state.withLock { state in
        var disk = state.disk
        // The operation's file may survive in the image: its number must not be used again.
        disk.leaveOutNumbers(before: numberNext)
        return CrashPoint(operation: described, disk: disk, effect: effect)
      }
    }
  }

  private func locked<R>(_ body: (inout State) throws(EngineError) -> R) throws(EngineError) -> R {
    let result = state.withLock { state -> Result<R, EngineError> in
      do throws(EngineError) { return .success(try body(&state)) } catch { return .failure(error) }
    }
    return try result.get()
  }

  private static func checkPower(_ state: State, _ path: String) throws(EngineError) {
    guard state.crashPoint == nil else { throw EngineError(.inputOutput, "simulated power loss", file: path) }
  }

  private static func apply(_ action: Action, to state: inout State) {
    switch action {
    case .names(let change): state.disk.apply(change)
    case .write(let inode, let bytes, let offset), .store(let inode, let bytes, let offset):
      unsafe state.disk.write(inode, bytes, at: offset, &state.random)
      for mapping in state.mappings.values where mapping.inode == inode && offset < mapping.size {
        guard let source = bytes.baseAddress else { continue }
        unsafe (mapping.base + offset).copyMemory(from: source, byteCount: min(bytes.count, mapping.size - offset))
      }
    case .truncate(let inode, let size): state.disk.truncate(inode, to: size, &state.random)
    case .sync(let inode, let first): state.disk.sync(inode, first: first)
    case .failSync(let inode):
      state.disk.failSync(inode)
      if let failing = state.failingSync {
        state.failingSync = failing.count > 1 ? (failing.suffix, 0, failing.count - 1) : nil
      }
      state.failedSyncCount += 1
    case .syncDirectory(let directory):
      state.disk.syncDirectory(directory)
      state.disk.sweep(open: Set(state.openCounts.keys).union(state.mappings.values.map(\.inode)))
    }
  }

  private static func add(_ operation: CrashOperation, _ action: Action, to trace: inout TraceHash) {
    trace.add(operation.kind.rawValue)
    trace.add(operation.path)
    trace.add(UInt64(operation.offset))
    trace.add(UInt64(operation.size))
    switch action {
    case .write(_, let bytes, _), .store(_, let bytes, _): unsafe trace.add(bytes)
    case .names(let change): for step in change.steps { trace.add(step.location.name) }
    default: break
    }
  }
}
