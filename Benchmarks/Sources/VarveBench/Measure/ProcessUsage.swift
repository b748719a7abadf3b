import Foundation

/// The resources that this process has used since it started.
///
/// Every engine and round has its own process, so the difference of two readings is the usage of one row of one engine,
/// including its background threads.
struct ProcessUsage {
  var cpuNanoseconds: UInt64 = 0
  /// Bytes passed to read and write system calls (`rchar`, `wchar`), without those of mapped files.
  var bytesRead: UInt64 = 0
  var bytesWritten: UInt64 = 0
  /// Bytes of pages made dirty (`write_bytes`), including stores through a mapping.
  var bytesDirtied: UInt64 = 0
  var systemCalls: UInt64 = 0

  static func now() -> ProcessUsage {
    var usage = ProcessUsage()
    var resources = rusage()
    // 0 is RUSAGE_SELF, which Glibc's and Darwin's headers declare as different types.
    getrusage(0, &resources)
    usage.cpuNanoseconds = nanoseconds(resources.ru_utime) + nanoseconds(resources.ru_stime)
    guard let text = readProcFile("/proc/self/io") else { return usage }
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: ":")
      guard parts.count == 2, let value = UInt64(parts[1].trimmingCharacters(in: .whitespaces)) else { continue }
      switch parts[0] {
      case "rchar": usage.bytesRead = value
      case "wchar": usage.bytesWritten = value
      case "write_bytes": usage.bytesDirtied = value
      case "syscr", "syscw": usage.systemCalls += value
      default: break
      }
    }
    return usage
  }

  private static func nanoseconds(_ time: timeval) -> UInt64 {
    UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_usec) * 1000
  }
}

/// The largest resident set since the last reset (`VmHWM`), in bytes.
enum PeakMemory {
  /// Returns the current resident set in bytes.
  static func current() -> Int { Int(field("VmRSS:")) }

  static func reset() {
    guard let file = fopen("/proc/self/clear_refs", "w") else { return }
    fputs("5", file)
    fclose(file)
  }

  static func read() -> UInt64 { field("VmHWM:") }

  private static func field(_ name: String) -> UInt64 {
    guard let status = readProcFile("/proc/self/status"), let mark = status.range(of: name) else { return 0 }
    let digits = status[mark.upperBound...].drop { !$0.isNumber }.prefix { $0.isNumber }
    return (UInt64(digits) ?? 0) * 1024
  }
}

/// Measures how long the process has been idle: almost no CPU time and no bytes written.
struct QuietWindow {
  private var lastBusy = Clock.now()
  private var usage = ProcessUsage.now()
  private var observed = Clock.now()

  /// Returns the nanoseconds of rest up to now. A thread that otherwise sleeps calls it every few milliseconds.
  mutating func observe() -> UInt64 {
    let now = Clock.now()
    let current = ProcessUsage.now()
    // Reading the counters costs this thread some CPU time itself, so less than an eighth of the time counts as rest.
    let cpu = current.cpuNanoseconds - usage.cpuNanoseconds
    if cpu * 8 > now - observed || current.bytesWritten != usage.bytesWritten { lastBusy = now }
    usage = current
    observed = now
    return now - lastBusy
  }
}

/// Returns the text of a file under /proc. Its size reads as 0, so that Foundation would treat it as empty.
func readProcFile(_ path: String) -> String? {
  guard let file = fopen(path, "r") else { return nil }
  defer { fclose(file) }
  var text: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 16_384)
  while true {
    let count = fread(&chunk, 1, chunk.count, file)
    guard count > 0 else { return String(decoding: text, as: UTF8.self) }
    text += chunk[..<count]
  }
}
