#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Converts the error numbers of system calls to engine errors: a code, and a message that states the call, the path,
/// and the error by name, number and the system's own text.
enum SystemError {
  /// The error number of a wait that timed out.
  static let timedOut = ETIMEDOUT

  /// Returns whether an error number means that the system does not support a call, or one of its arguments.
  static func isUnknownCall(_ number: Int32) -> Bool { number == EINVAL || number == ENOSYS }

  static func error(_ number: Int32, call: String, path: String, offset: UInt64? = nil) -> EngineError {
    EngineError(
      code(number), "\(call) failed with \(name(number)) (\(number)): \(text(number))", file: path, offset: offset)
  }

  /// Returns the engine error of a failed call that opens or reads an existing file.
  static func readingError(_ number: Int32, call: String, path: String, offset: UInt64? = nil) -> EngineError {
    guard number == EPERM || number == EACCES else { return error(number, call: call, path: path, offset: offset) }
    return EngineError(
      .notReadableNow,
      "\(call) failed with \(name(number)) (\(number)): it can't be read now; \(unreadableReason)", file: path,
      offset: offset)
  }

  /// Why an existing file can't be read. Only Apple's systems protect files while a device is locked.
  private static var unreadableReason: String {
    #if canImport(Darwin)
      "it is protected while the device is locked, or this process has no permission"
    #else
      "this process has no permission"
    #endif
  }

  private static func code(_ number: Int32) -> EngineError.Code {
    switch number {
    case ENOENT: .notFound
    case EEXIST: .alreadyExists
    case ENOSPC, EDQUOT: .noSpace
    case EMFILE, ENFILE: .tooManyOpenFiles
    case EACCES, EPERM, EROFS: .permissionDenied
    default: .inputOutput
    }
  }

  /// Returns the symbol of an error number, or the number itself if it is rare.
  static func name(_ number: Int32) -> String {
    switch number {
    case EPERM: "EPERM"
    case ENOENT: "ENOENT"
    case EINTR: "EINTR"
    case EIO: "EIO"
    case ENXIO: "ENXIO"
    case EBADF: "EBADF"
    case EAGAIN: "EAGAIN"
    case ENOMEM: "ENOMEM"
    case EACCES: "EACCES"
    case EFAULT: "EFAULT"
    case EBUSY: "EBUSY"
    case EEXIST: "EEXIST"
    case EXDEV: "EXDEV"
    case ENODEV: "ENODEV"
    case ENOTDIR: "ENOTDIR"
    case EISDIR: "EISDIR"
    case EINVAL: "EINVAL"
    case ENFILE: "ENFILE"
    case EMFILE: "EMFILE"
    case EFBIG: "EFBIG"
    case ENOSPC: "ENOSPC"
    case EROFS: "EROFS"
    case EMLINK: "EMLINK"
    case ENAMETOOLONG: "ENAMETOOLONG"
    case ENOLCK: "ENOLCK"
    case ENOSYS: "ENOSYS"
    case ENOTEMPTY: "ENOTEMPTY"
    case ELOOP: "ELOOP"
    case EDQUOT: "EDQUOT"
    case ESTALE: "ESTALE"
    case ENOTSUP: "ENOTSUP"
    default: "errno"
    }
  }

  private static func text(_ number: Int32) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
      unsafe buffer.initialize(repeating: 0)
      guard let base = buffer.baseAddress else { return "" }
      return unsafe strerror_r(number, base, buffer.count) == 0 ? String(cString: base) : "unknown error"
    }
  }
}
