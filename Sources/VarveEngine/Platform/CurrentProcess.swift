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
