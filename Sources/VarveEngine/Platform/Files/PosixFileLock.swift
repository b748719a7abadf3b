internal import CVarve
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A lock by `flock` on a file that stays open, registered in the whole process.
///
/// If a file is opened twice, `flock` refuses to lock the second descriptor while the first one is locked, even in the
/// same process. File systems that emulate `flock` by record locks (NFS) do not: record locks never conflict within a
/// process, and closing any descriptor of the file releases them. The registry of locked files refuses the second lock
/// there, too, before the file is opened again.
///
/// # Invariants
/// 1. The registry has the identity of each file whose lock this process holds or is taking.
/// 2. The locked file is the one that the path names at that time: a file that was removed between its open and its
///    lock is released, and the path is opened again.
///
/// # Concurrency
/// Safe from any thread. `registry` is locked alone, never together with another lock.
final class PosixFileLock: FileLock {
  /// The locks of this process. Locks that a forked child inherits belong to its parent.
  private struct Registry {
    private var held: Set<FileIdentity> = []
    private var forkCount: UInt32 = 0

    mutating func contains(_ identity: FileIdentity) -> Bool {
      forget()
      return held.contains(identity)
    }

    mutating func insert(_ identity: FileIdentity) -> Bool {
      forget()
      return held.insert(identity).inserted
    }

    mutating func remove(_ identity: FileIdentity) {
      forget()
      held.remove(identity)
    }

    private mutating func forget() {
      guard forkCount != cvarve_fork_count() else { return }
      held = []
      forkCount = cvarve_fork_count()
    }
  }

  private static let registry = Mutex(Registry())
  /// The number of times that the file may vanish between open and lock before the lock fails.
  private static let attemptMaximum = 100

  private let identity: FileIdentity
  private let descriptor: Mutex<Int32?>
  private let forkCount = cvarve_fork_count()

  private init(identity: FileIdentity, descriptor: Int32) {
    cvarve_close_in_children(descriptor)
    self.identity = identity
    self.descriptor = Mutex(descriptor)
  }

  deinit { release() }

  /// Takes the lock of the file at `path`, which is created if it does not exist.
  static func take(_ path: String, _ fileSystem: PosixFileSystem) throws(EngineError) -> PosixFileLock {
    for _ in 0..<attemptMaximum {
      // The check comes before the open: with emulated locks, closing the new descriptor would release the lock that
      // is held.
      try checkNotHeld(path, fileSystem)
      let descriptor = try fileSystem.open(path, O_RDWR | O_CREAT)
      do throws(EngineError) {
        if let lock = try take(path, descriptor, fileSystem) { return lock }
      } catch {
        _ = close(descriptor)
        throw error
      }
      _ = close(descriptor)
    }
    throw EngineError(.locked, "the lock file was removed repeatedly while it was being locked", file: path)
  }

  private static func checkNotHeld(_ path: String, _ fileSystem: PosixFileSystem) throws(EngineError) {
    guard case .success(let information) = try fileSystem.information(path) else { return }
    let identity = FileIdentity(information)
    guard !registry.withLock({ $0.contains(identity) }) else { throw heldHere(path) }
  }

  private static func heldHere(_ path: String) -> EngineError {
    EngineError(.locked, "this process already holds the lock", file: path)
  }

  /// Returns the error for a lock that another process holds, with what it has written into the file.
  private static func heldElsewhere(_ path: String, _ descriptor: Int32) -> EngineError {
    var bytes = [UInt8](repeating: 0, count: LockNote.sizeMaximum)
    let count = unsafe bytes.withUnsafeMutableBytes {
      unsafe SystemCalls.system.readFully(descriptor, into: $0, at: 0)
    }
    let note = LockNote(text: String(decoding: bytes.prefix(max(0, count)), as: UTF8.self))
    // A note of a process that has ended was left by it, and the present one has written none.
    let who = note.flatMap { $0.place.hasEnded ? nil : $0.who } ?? "another process"
    return EngineError(.locked, "\(who) holds the lock", file: path)
  }

  /// Locks an open file. Returns nil if the path names another file by now.
  private static func take(
    _ path: String, _ descriptor: Int32, _ fileSystem: PosixFileSystem
  ) throws(EngineError) -> PosixFileLock? {
    var information = stat()
    guard unsafe fstat(descriptor, &information) == 0 else {
      throw SystemError.error(errno, call: "fstat", path: path)
    }
    let identity = FileIdentity(information)
    guard registry.withLock({ $0.insert(identity) }) else { throw heldHere(path) }
    var kept = false
    defer { if !kept { registry.withLock { $0.remove(identity) } } }
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      let number = errno
      if number == EINTR { continue }
      if number == EWOULDBLOCK { throw heldElsewhere(path, descriptor) }
      throw SystemError.error(number, call: "flock", path: path)
    }
    guard case .success(let named) = try fileSystem.information(path), FileIdentity(named) == identity else {
      return nil
    }
    kept = true
    return PosixFileLock(identity: identity, descriptor: descriptor)
  }

  /// Replaces the content of the file. Errors are ignored: the lock does not depend on it.
  func write(_ text: String) {
    descriptor.withLock { held in
      guard let held, forkCount == cvarve_fork_count() else { return }
      let bytes = Array(text.utf8)
      _ = unsafe bytes.withUnsafeBytes { unsafe SystemCalls.system.writeFully(held, $0, at: 0) }
      _ = ftruncate(held, off_t(bytes.count))
    }
  }

  func release() {
    let held = descriptor.withLock { held -> Int32? in
      defer { held = nil }
      return held
    }
    // A forked child has closed its descriptor, and must not release the lock of its parent.
    guard let held, forkCount == cvarve_fork_count() else { return }
    cvarve_keep_in_children(held)
    // Only an engine writes into the file, and it has nothing to say any more. A file without a text stays as it is,
    // with its times.
    var information = stat()
    if unsafe fstat(held, &information) != 0 || information.st_size > 0 { _ = ftruncate(held, 0) }
    // Closing the descriptor would not be enough: a child process that is just being spawned has a copy of it until
    // it runs its program.
    _ = flock(held, LOCK_UN)
    _ = close(held)
    Self.registry.withLock { $0.remove(identity) }
  }
}

extension FileIdentity {
  init(_ information: stat) {
    self.init(device: UInt64(truncatingIfNeeded: information.st_dev), number: UInt64(information.st_ino))
  }
}
