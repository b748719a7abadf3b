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

  /// How many of them tables may take: the rest of the program has half, and never more than 1,024.
  static var forTables: Int {
    let limit = current
    return limit - min(limit / 2, 1_024)
  }

  /// Raises the soft limit to the hard one, for the whole process. Where the system refuses, it stays as it is.
  static func raise() {
    var limit = rlimit()
    #if canImport(Glibc)
      let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
      let resource = RLIMIT_NOFILE
    #endif
    guard unsafe getrlimit(resource, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
    limit.rlim_cur = limit.rlim_max
    #if canImport(Darwin)
      // The system takes no more than this, whatever the hard limit says.
      limit.rlim_cur = min(limit.rlim_cur, rlim_t(OPEN_MAX))
    #endif
    _ = unsafe setrlimit(resource, &limit)
  }
}

/// How many processors there are to work on.
enum ProcessorCount {
  /// Those that the system uses now; 1 where it doesn't say.
  static var current: Int { max(Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))), 1) }
}
