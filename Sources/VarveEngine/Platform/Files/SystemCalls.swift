internal import CVarve

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The system calls whose result may be short or interrupted, as replaceable functions.
///
/// The tests of `PosixFile` use others that return one byte, or EINTR, so that the loops around them are exercised.
/// Each function returns the result of the call, or the negative of its error number.
///
/// # Safety
/// The pointers are passed on to the system unchecked. The caller guarantees their bounds.
@safe
struct SystemCalls: Sendable {
  typealias Read =
    @Sendable (_ descriptor: Int32, _ target: UnsafeMutableRawPointer, _ count: Int, _ offset: Int64) ->
    Int
  typealias Write = @Sendable (_ descriptor: Int32, _ source: UnsafeRawPointer, _ count: Int, _ offset: Int64) -> Int

  var read: Read
  var write: Write
  var syncData: @Sendable (_ descriptor: Int32) -> Int32
  var syncFirst: @Sendable (_ descriptor: Int32, _ size: Int) -> Int32
  var truncate: @Sendable (_ descriptor: Int32, _ size: Int64) -> Int32
  /// Called before an entry of a directory is made, renamed or removed. The system has no such call: it refuses the
  /// change itself. Tests refuse it here, also to the system's administrator, to whom every directory is writable.
  var changeEntry: @Sendable (_ path: String) -> Int32 = { _ in 0 }

  /// The operating system's calls.
  static let system = unsafe SystemCalls(
    read: { descriptor, target, count, offset in
      let result = unsafe pread(descriptor, target, count, off_t(offset))
      return result < 0 ? -Int(errno) : result
    },
    write: { descriptor, source, count, offset in
      let result = unsafe pwrite(descriptor, source, count, off_t(offset))
      return result < 0 ? -Int(errno) : result
    },
    syncData: { descriptor in cvarve_sync_data(descriptor) },
    syncFirst: { descriptor, size in cvarve_sync_first(descriptor, size) },
    truncate: { descriptor, size in ftruncate(descriptor, off_t(size)) == 0 ? 0 : -errno })

  /// Fills `buffer` from `offset`, repeating interrupted and short reads, up to the end of the file. Returns the
  /// number of bytes read, or the negative of an error number.
  func readFully(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
    guard let base = buffer.baseAddress else { return 0 }
    var done = 0
    while done < buffer.count {
      let result = unsafe read(descriptor, base + done, buffer.count - done, offset + Int64(done))
      if result == 0 { break }
      if result > 0 { done += result } else if result != -Int(EINTR) { return result }
    }
    return done
  }

  /// Writes all of `buffer` at `offset`, repeating interrupted and short writes. Returns the number of bytes written,
  /// and the error number that ended the write, or 0.
  func writeFully(
    _ descriptor: Int32, _ buffer: UnsafeRawBufferPointer, at offset: Int64
  ) -> (written: Int, error: Int32) {
    guard let base = buffer.baseAddress else { return (0, 0) }
    var done = 0
    while done < buffer.count {
      let result = unsafe write(descriptor, base + done, buffer.count - done, offset + Int64(done))
      // A write of zero bytes without an error would otherwise repeat forever.
      if result == 0 { return (done, EIO) }
      if result > 0 { done += result } else if result != -Int(EINTR) { return (done, Int32(-result)) }
    }
    return (done, 0)
  }

  /// Calls `body` until it is not interrupted.
  func uninterrupted(_ body: () -> Int32) -> Int32 {
    while true {
      let result = body()
      if result != -EINTR { return result }
    }
  }
}
