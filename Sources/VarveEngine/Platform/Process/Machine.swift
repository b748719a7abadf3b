#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The number of files that this process may have open.
enum DescriptorLimit {
  /// The system's soft limit, or 1,024 if the system does not report it.
  static var current: Int {
    var limit = rlimit()
    #if canImport(Glibc)
      let status = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #else
      let status = unsafe getrlimit(RLIMIT_NOFILE, &limit)
    #endif
    return status == 0 ? Int(clamping: limit.rlim_cur) : 1_024
  }

  /// The number of files that tables may have open. The rest of the program keeps half of the limit, but at most
  /// 1,024.
  static var forTables: Int {
    let limit = current
    return limit - min(limit / 2, 1_024)
  }

  /// Raises the soft limit to the hard one, for the whole process. If the system refuses, the limit does not change.
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
      // The system accepts at most this value, whatever the hard limit is.
      limit.rlim_cur = min(limit.rlim_cur, rlim_t(OPEN_MAX))
    #endif
    _ = unsafe setrlimit(resource, &limit)
  }
}

/// The number of processors that are available.
enum ProcessorCount {
  /// The number of processors that are online, or 1 if the system does not report it.
  static var current: Int { max(Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))), 1) }
}
