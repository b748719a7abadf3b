#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The current process.
enum CurrentProcess {
  /// The process id, as tools display it.
  static var number: Int32 { getpid() }

  /// Yields the processor to another thread.
  static func yieldThread() { sched_yield() }
}

/// A process of this machine, distinguished from a later one with the same number.
struct ProcessIdentity: Sendable, Hashable {
  let number: UInt64
  /// The start time of the process in the system's units, or 0 if unknown.
  let start: UInt64

  /// The current process.
  static var current: ProcessIdentity {
    let number = getpid()
    return ProcessIdentity(number: UInt64(number), start: startTime(of: number))
  }

  /// An identity of the namespace in which the system numbers processes, or 0 if unknown. A number from another
  /// namespace belongs to another process here.
  static var namespace: UInt64 {
    #if canImport(Darwin)
      // Darwin has one namespace for all processes.
      return 1
    #else
      var information = stat()
      guard unsafe stat("/proc/self/ns/pid", &information) == 0 else { return 0 }
      return UInt64(information.st_ino)
    #endif
  }

  /// Whether the process exists. A process in another container is not visible, and counts as gone.
  var isAlive: Bool {
    guard isNumberInUse, let process = pid_t(exactly: number) else { return false }
    let now = Self.startTime(of: process)
    return now == 0 || start == 0 || now == start
  }

  /// Whether the number belongs to this process or a later one. Complexity: one system call.
  var isNumberInUse: Bool {
    guard let process = pid_t(exactly: number), process > 0 else { return false }
    return kill(process, 0) == 0 || errno == EPERM
  }

  /// Returns field 22 of `/proc/N/stat`, the start time in clock ticks since the machine started, or 0 if there is no
  /// such file.
  private static func startTime(of process: pid_t) -> UInt64 {
    let path = "/proc/\(process)/stat"
    var bytes = [UInt8](repeating: 0, count: 1024)
    do throws(EngineError) {
      let file = try PosixFileSystem().openFile(path, writable: false)
      defer { file.close() }
      let count = try file.read(into: &bytes, at: 0)
      bytes.removeLast(bytes.count - count)
    } catch { return 0 }
    // The program's name, in parentheses, may contain spaces and parentheses itself.
    guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return 0 }
    let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
    return fields.count > 19 ? UInt64(String(decoding: fields[19], as: UTF8.self)) ?? 0 : 0
  }
}
