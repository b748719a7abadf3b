#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// This process.
enum CurrentProcess {
  /// Its number, by which people find it.
  static var number: Int32 { getpid() }

  /// Lets another thread have the processor.
  static func yieldThread() { sched_yield() }
}

/// A process of this machine, distinguished from a later one that got its number.
struct ProcessIdentity: Sendable, Hashable {
  let number: UInt64
  /// When it began, as the system counts it; 0 where that is not known.
  let start: UInt64

  /// The process that asks.
  static var current: ProcessIdentity {
    let number = getpid()
    return ProcessIdentity(number: UInt64(number), start: startTime(of: number))
  }

  /// Names the namespace in which the system numbers processes: a number from another namespace is that of another
  /// process here. 0 where it is not known.
  static var namespace: UInt64 {
    #if canImport(Darwin)
      // It has one for all processes.
      return 1
    #else
      var information = stat()
      guard unsafe stat("/proc/self/ns/pid", &information) == 0 else { return 0 }
      return UInt64(information.st_ino)
    #endif
  }

  /// Whether the process is there. One in another container is not to be seen, and counts as gone.
  var isAlive: Bool {
    guard isNumberInUse, let process = pid_t(exactly: number) else { return false }
    let now = Self.startTime(of: process)
    return now == 0 || start == 0 || now == start
  }

  /// Whether this process or a later one has the number. Complexity: one system call.
  var isNumberInUse: Bool {
    guard let process = pid_t(exactly: number), process > 0 else { return false }
    return kill(process, 0) == 0 || errno == EPERM
  }

  /// Field 22 of `/proc/N/stat`, clock ticks since the machine started; 0 where there is no such file.
  private static func startTime(of process: pid_t) -> UInt64 {
    let path = "/proc/\(process)/stat"
    var bytes = [UInt8](repeating: 0, count: 1024)
    do throws(EngineError) {
      let file = try PosixFileSystem().openFile(path, writable: false)
      defer { file.close() }
      let count = try file.read(into: &bytes, at: 0)
      bytes.removeLast(bytes.count - count)
    } catch { return 0 }
    // The name of the program, in parentheses, may have spaces and parentheses of its own.
    guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return 0 }
    let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
    return fields.count > 19 ? UInt64(String(decoding: fields[19], as: UTF8.self)) ?? 0 : 0
  }
}
