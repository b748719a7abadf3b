#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// How many processors there are to work on.
enum ProcessorCount {
  /// Those that the system uses now; 1 where it doesn't say.
  static var current: Int { max(Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))), 1) }
}
