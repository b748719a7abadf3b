internal import CVarve
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// An open file of the operating system.
///
/// # Invariants
/// 1. The descriptor is closed once: by `close` if no call is under way, otherwise by the last call that ends after
///    it, otherwise by `deinit`. No call ever uses a descriptor number that was released, because another file may
///    have it by then.
/// 2. No call begins after `close`.
///
/// # Concurrency
/// Safe from any thread. `state` counts the calls under way in steps of two; its lowest bit means closed.
final class PosixFile: File {
  let path: String
  private let descriptor: Int32
  private let isWritable: Bool
  private let calls: SystemCalls
  private let state = Atomic<Int>(0)

  private static let closedBit = 1
  private static let oneUse = 2

  /// Takes ownership of an open descriptor.
  init(path: String, descriptor: Int32, calls: SystemCalls, isWritable: Bool = true) {
    self.path = path
    self.descriptor = descriptor
    self.isWritable = isWritable
    self.calls = calls
  }

  deinit { close() }

  func size() throws(EngineError) -> UInt64 {
    try use("fstat") { () throws(EngineError) -> UInt64 in
      var information = stat()
      guard unsafe fstat(descriptor, &information) == 0 else { throw readingFailure(errno, "fstat") }
      return UInt64(information.st_size)
    }
  }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    let start = try checkedOffset(offset, count: buffer.count)
    return try use("pread") { () throws(EngineError) -> Int in
      let count = unsafe calls.readFully(descriptor, into: buffer, at: start)
      guard count >= 0 else { throw readingFailure(Int32(-count), "pread", offset) }
      return count
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    let start = try checkedOffset(offset, count: bytes.count)
    try use("pwrite") { () throws(EngineError) in
      let (written, error) = unsafe calls.writeFully(descriptor, bytes, at: start)
      guard error == 0 else { throw failure(error, "pwrite", offset + UInt64(written)) }
    }
  }

  func truncate(to size: UInt64) throws(EngineError) {
    let size = try checkedOffset(size, count: 0)
    try use("ftruncate") { () throws(EngineError) in
      let result = calls.uninterrupted { calls.truncate(descriptor, size) }
      guard result == 0 else { throw failure(-result, "ftruncate") }
    }
  }

  func sync() throws(EngineError) {
    try use("fdatasync") { () throws(EngineError) in
      let result = calls.uninterrupted { calls.syncData(descriptor) }
      guard result == 0 else { throw failure(-result, "fdatasync") }
    }
  }

  func sync(first size: Int) throws(EngineError) {
    try use("msync") { () throws(EngineError) in
      let result = calls.uninterrupted { calls.syncFirst(descriptor, size) }
      guard result == 0 else { throw failure(-result, "msync") }
    }
  }

  func startWriteback(offset: UInt64, size: UInt64) {
    hint { cvarve_start_writeback(descriptor, Int64(clamping: offset), Int64(clamping: size)) }
  }

  func dropCachedPages(offset: UInt64, size: UInt64) {
    hint { cvarve_drop_cached_pages(descriptor, Int64(clamping: offset), Int64(clamping: size)) }
  }

  func map(size: Int) throws(EngineError) -> MappedFile {
    let present = try self.size()
    guard size > 0, UInt64(size) <= present else {
      throw EngineError(.invalidArgument, "file has \(present) bytes; \(size) were to be mapped", file: path)
    }
    return try use("mmap") { () throws(EngineError) -> MappedFile in
      let access = isWritable ? PROT_READ | PROT_WRITE : PROT_READ
      let address = unsafe mmap(nil, size, access, MAP_SHARED, descriptor, 0)
      guard let address = unsafe address, unsafe address != MAP_FAILED else { throw readingFailure(errno, "mmap") }
      return unsafe MappedFile(base: address, size: size, isOfFile: true) { base, size in unsafe munmap(base, size) }
    }
  }

  func close() {
    let (old, _) = state.bitwiseOr(Self.closedBit, ordering: .acquiringAndReleasing)
    if old == 0 { closeDescriptor() }
  }
}

extension PosixFile {
  /// Calls `body` while the descriptor can't be released, or throws if it was.
  @inline(__always)
  private func use<R>(_ call: String, _ body: () throws(EngineError) -> R) throws(EngineError) -> R {
    guard beginUse() else { throw EngineError(.inputOutput, "\(call) on a closed file", file: path) }
    defer { endUse() }
    return try body()
  }

  private func hint(_ body: () -> Void) {
    guard beginUse() else { return }
    body()
    endUse()
  }

  private func beginUse() -> Bool {
    var seen = state.load(ordering: .relaxed)
    while seen & Self.closedBit == 0 {
      let (exchanged, original) = state.weakCompareExchange(
        expected: seen, desired: seen + Self.oneUse, ordering: .acquiring)
      if exchanged { return true }
      seen = original
    }
    return false
  }

  private func endUse() {
    let (_, now) = state.subtract(Self.oneUse, ordering: .acquiringAndReleasing)
    if now == Self.closedBit { closeDescriptor() }
  }

  /// Closes the descriptor and ignores the result: on Linux the descriptor is released even after an error, and the
  /// data that matters was synced before.
  private func closeDescriptor() {
    #if canImport(Darwin)
      _ = Darwin.close(descriptor)
    #elseif canImport(Glibc)
      _ = Glibc.close(descriptor)
    #elseif canImport(Musl)
      _ = Musl.close(descriptor)
    #endif
  }

  private func checkedOffset(_ offset: UInt64, count: Int) throws(EngineError) -> Int64 {
    guard let start = Int64(exactly: offset), start <= Int64.max - Int64(count) else {
      throw EngineError(.invalidArgument, "file offset is out of range", file: path, offset: offset)
    }
    return start
  }

  private func readingFailure(_ number: Int32, _ call: String, _ offset: UInt64? = nil) -> EngineError {
    SystemError.readingError(number, call: call, path: path, offset: offset)
  }

  private func failure(_ number: Int32, _ call: String, _ offset: UInt64? = nil) -> EngineError {
    SystemError.error(number, call: call, path: path, offset: offset)
  }
}
