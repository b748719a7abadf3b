#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A child process that writes eight-byte numbers to its standard output, started by `posix_spawn`.
///
/// Not thread-safe: an instance is used by one thread.
public final class ChildProcess {
  private let identifier: pid_t
  private let output: CInt
  private var rest: [UInt8] = []
  private var isReaped = false

  /// The error that is thrown if a program cannot be started.
  public struct Failure: Error, CustomStringConvertible {
    /// The system call that failed and its error number.
    public let description: String
  }

  /// Starts a program.
  ///
  /// Its environment is empty except for `environment` and the variables that a sanitizer run needs (`handedDown`).
  /// `built` returns the path of a program that was built next to the running tests.
  public init(_ program: String, _ arguments: [String], environment added: [String] = []) throws {
    var ends: [CInt] = [0, 0]
    guard unsafe pipe(&ends) == 0 else { throw Failure(description: "no pipe: error \(errno)") }
    // A child process that starts concurrently must not keep this pipe open.
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    var words: [UnsafeMutablePointer<CChar>?] = unsafe ([program] + arguments).map { unsafe strdup($0) }
    unsafe words.append(nil)
    defer { unsafe words.forEach { unsafe free($0) } }
    var environment = unsafe Self.handedDown.map { name in
      unsafe getenv(name).flatMap { unsafe strdup("\(name)=\(String(cString: $0))") }
    }
    unsafe environment += added.map { unsafe strdup($0) }
    unsafe environment = environment.filter { unsafe $0 != nil } + [nil]
    defer { unsafe environment.forEach { unsafe free($0) } }
    var identifier: pid_t = 0
    let status = unsafe posix_spawn(&identifier, program, &actions, nil, &words, &environment)
    close(ends[1])
    guard status == 0 else {
      close(ends[0])
      throw Failure(description: "\(program) can't be started: error \(status)")
    }
    self.identifier = identifier
    output = ends[0]
  }

  private static let handedDown = ["LD_PRELOAD", "TSAN_OPTIONS"]

  deinit {
    if !isReaped { _ = killAndWait() }
    close(output)
  }

  /// Returns the path of a program that was built next to the running tests.
  public static func built(_ name: String) throws -> String {
    #if canImport(Darwin)
      let path = CommandLine.arguments[0]
    #else
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = unsafe bytes.withUnsafeMutableBytes { buffer in
        guard let base = buffer.baseAddress else { return 0 }
        return unsafe readlink("/proc/self/exe", base.assumingMemoryBound(to: CChar.self), buffer.count)
      }
      guard count > 0 else { throw Failure(description: "where the tests run is not known: error \(errno)") }
      let path = String(decoding: bytes[..<count], as: UTF8.self)
    #endif
    return path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") + "/" + name
  }

  /// Reads the next number. Returns `nil` at the end of the output, when the program has ended.
  public func nextNumber() -> UInt64? {
    while rest.count < 8 {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = unsafe read(output, &buffer, buffer.count)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return nil }
      rest += buffer[..<count]
    }
    defer { rest.removeFirst(8) }
    return rest[..<8].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// Kills the program with SIGKILL and waits for it. Returns true if SIGKILL was the cause of its end.
  public func killAndWait() -> Bool {
    kill(identifier, SIGKILL)
    return wait() & 0x7f == SIGKILL
  }

  /// Waits until the program ends. Returns true if it exited by itself with status 0.
  public func succeeds() -> Bool { wait() == 0 }

  private func wait() -> CInt {
    var status: CInt = 0
    while unsafe waitpid(identifier, &status, 0) < 0 && errno == EINTR {}
    isReaped = true
    return status
  }
}
