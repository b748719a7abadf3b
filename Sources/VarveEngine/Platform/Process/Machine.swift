#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// How many files this process may have open.
enum DescriptorLimit {
  /// The system's soft limit; 1,024 where it doesn't say.
  static var current: Int {
    var limit = rlimit()
    #if canImport(Glibc)
      let status = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #else
      let status = unsafe getrlimit(RLIMIT_NOFILE, &limit)
    #endif
    return status == 0 ? Int(clamping: limit.rlim_cur) : 1_024
  }
}

/// How many processors there are to work on.
enum ProcessorCount {
  /// Those that the system uses now; 1 where it doesn't say.
  static var current: Int { max(Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))), 1) }
}
