internal import CVarve
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Calls a closure when files may have been moved into a directory.
///
/// The kernel reports this to one thread of the process, which serves all its watches and sleeps otherwise: nothing is
/// polled. The thread ends with the process.
///
/// # Concurrency
/// Safe from any thread. The closure is called on the thread of the watches, without a lock. A call that has begun can
/// continue after the watch was released.
package final class DirectoryWatch: Sendable {
  private let watches: DirectoryWatches
  private let number: UInt64

  /// Begins to watch the directory to which a path leads now, for files with names that end in `suffix`. Returns `nil`
  /// if the system can't watch it.
  package init?(
    _ path: String, suffix: String, on fileSystem: PosixFileSystem = PosixFileSystem(),
    _ body: @escaping @Sendable () -> Void
  ) {
    guard let watches = DirectoryWatches.shared,
      let number = watches.add(path, fileSystem, DirectoryWatches.Watch(suffix: suffix, body: body))
    else { return nil }
    self.watches = watches
    self.number = number
  }

  deinit { watches.remove(number) }
}

/// The watches of a process.
private final class DirectoryWatches: Sendable {
  struct Watch: Sendable {
    let suffix: String
    let body: @Sendable () -> Void
    /// The system's number of the watch.
    var key: Int32 = -1
  }

  private struct Current {
    var watches: DirectoryWatches?
    var forkCount: UInt32 = 0
  }

  private static let current = Mutex(Current())

  /// The watches of this process, or `nil` if the system has none left. A forked child has not the thread of its
  /// parent, so it gets its own.
  static var shared: DirectoryWatches? {
    cvarve_watch_forks()
    return current.withLock { current in
      if let watches = current.watches, current.forkCount == cvarve_fork_count() { return watches }
      current.watches = DirectoryWatches()
      current.forkCount = cvarve_fork_count()
      return current.watches
    }
  }

  private struct State {
    var watches: [UInt64: Watch] = [:]
    var last: UInt64 = 0
  }

  private let descriptor: Int32
  private let state = Mutex(State())

  private init?() {
    descriptor = Self.makeQueue()
    guard descriptor >= 0 else { return nil }
    guard let thread = EngineThread(ifPossible: "varve-inbox", body: { [self] in run() }) else {
      _ = close(descriptor)
      return nil
    }
    thread.detach()
  }

  func add(_ path: String, _ fileSystem: PosixFileSystem, _ watch: Watch) -> UInt64? {
    // The lock is held, so that an event of the new watch finds it.
    state.withLock { state in
      let key = begin(path, fileSystem)
      guard key >= 0 else { return nil }
      state.last += 1
      state.watches[state.last] = watch
      state.watches[state.last]?.key = key
      return state.last
    }
  }

  func remove(_ number: UInt64) {
    state.withLock { state in
      guard let watch = state.watches.removeValue(forKey: number) else { return }
      // Another watch of the same directory has the same key.
      if !state.watches.values.contains(where: { $0.key == watch.key }) { end(watch.key) }
    }
  }

  /// Calls the closures of the watches with a key. A `nil` name stands for any file.
  private func call(_ key: Int32, _ name: String?) {
    let bodies = state.withLock { state in
      state.watches.values.filter { $0.key == key && (name?.hasSuffix($0.suffix) ?? true) }.map(\.body)
    }
    for body in bodies { body() }
  }

  private func callAll() {
    let bodies = state.withLock { $0.watches.values.map(\.body) }
    for body in bodies { body() }
  }
}

#if canImport(Darwin)
  extension DirectoryWatches {
    private static func makeQueue() -> Int32 { kqueue() }

    private func begin(_ path: String, _ fileSystem: PosixFileSystem) -> Int32 {
      guard let opened = try? fileSystem.open(path, O_EVTONLY | O_CLOEXEC) else { return -1 }
      var change = unsafe kevent(
        ident: UInt(opened), filter: Int16(EVFILT_VNODE), flags: UInt16(EV_ADD | EV_CLEAR), fflags: UInt32(NOTE_WRITE),
        data: 0, udata: nil)
      guard unsafe kevent(descriptor, &change, 1, nil, 0, nil) == 0 else {
        _ = close(opened)
        return -1
      }
      return opened
    }

    /// Closing the descriptor ends its watch.
    private func end(_ key: Int32) { _ = close(key) }

    private func run() {
      while true {
        var event = unsafe kevent()
        let count = unsafe kevent(descriptor, nil, 0, &event, 1, nil)
        if count < 0, errno != EINTR { return }
        if count == 1 { unsafe call(Int32(truncatingIfNeeded: event.ident), nil) }
      }
    }
  }
#else
  extension DirectoryWatches {
    private static func makeQueue() -> Int32 { inotify_init1(Int32(IN_CLOEXEC)) }

    private func begin(_ path: String, _ fileSystem: PosixFileSystem) -> Int32 {
      guard let resolved = try? fileSystem.resolve(path) else { return -1 }
      return resolved.use { directory, name in
        // There is no call for a name below an open directory. The path follows a directory that was renamed.
        let name = directory == AT_FDCWD ? name : "/proc/self/fd/\(directory)/\(name)"
        return unsafe inotify_add_watch(descriptor, name, UInt32(IN_MOVED_TO | IN_ONLYDIR))
      }
    }

    private func end(_ key: Int32) { _ = inotify_rm_watch(descriptor, key) }

    private static let bufferSize = 16 << 10
    private static let headerSize = 16

    private func run() {
      var bytes = [UInt8](repeating: 0, count: Self.bufferSize)
      while true {
        let count = unsafe read(descriptor, &bytes, bytes.count)
        if count < 0, errno != EINTR { return }
        if count > 0 { deliver(Array(bytes[..<count])) }
      }
    }

    /// Reads events: the key (4), the kind (4), a number (4), the size of the name (4), and the name with zeros.
    private func deliver(_ bytes: [UInt8]) {
      func number(_ offset: Int) -> UInt32 {
        (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << UInt32(8 * $1) }
      }
      var offset = 0
      while offset + Self.headerSize <= bytes.count {
        let (key, mask, size) = (number(offset), number(offset + 4), Int(number(offset + 12)))
        let end = min(offset + Self.headerSize + size, bytes.count)
        let name = bytes[(offset + Self.headerSize)..<end].prefix { $0 != 0 }
        offset = end
        if mask & UInt32(IN_Q_OVERFLOW) != 0 {
          callAll()
        } else if mask & UInt32(IN_MOVED_TO) != 0 {
          call(Int32(bitPattern: key), String(decoding: name, as: UTF8.self))
        }
      }
    }
  }
#endif
