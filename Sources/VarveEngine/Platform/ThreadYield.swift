#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Gives the processor to another thread that waits for one.
enum ThreadYield {
  static func yield() { _ = sched_yield() }
}
