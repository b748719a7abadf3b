internal import Synchronization

/// Where a table keeps its open reader: nothing is opened until the first read touches it.
///
/// Also knows whether the file is obsolete: then it is given up when the last Version, cursor or job
/// that names the table has gone.
///
/// # Concurrency
/// Safe from any thread. A reader that was stored stays for the life of the slot, so whoever keeps the
/// table alive may use it without counting a reference.
final class TableReaderSlot: @unchecked Sendable {
  // Sendable: both fields are atomic; the stored reference is given back in deinit alone.
  private let bits = Atomic<UInt>(0)
  private let obsolete = Mutex<(@Sendable () -> Void)?>(nil)

  deinit {
    if let reader = unsafe Self.reference(bits.load(ordering: .acquiring)) { unsafe reader.release() }
    obsolete.withLock { $0 }?()
  }

  private static func reference(_ bits: UInt) -> Unmanaged<TableReader>? {
    unsafe UnsafeRawPointer(bitPattern: bits).map { unsafe Unmanaged<TableReader>.fromOpaque($0) }
  }

  /// The reader, opened by the first call.
  @inline(__always)
  func reader(_ open: () throws(EngineError) -> TableReader) throws(EngineError) -> Unmanaged<TableReader> {
    if let reader = unsafe Self.reference(bits.load(ordering: .acquiring)) { return unsafe reader }
    return unsafe try openReader(open)
  }

  @inline(never)
  private func openReader(
    _ open: () throws(EngineError) -> TableReader
  ) throws(EngineError) -> Unmanaged<TableReader> {
    let fresh = unsafe Unmanaged.passRetained(try open())
    let result = bits.compareExchange(
      expected: 0, desired: unsafe UInt(bitPattern: fresh.toOpaque()), ordering: .acquiringAndReleasing)
    if result.exchanged { return unsafe fresh }
    // Another thread was faster: its reader is the one.
    unsafe fresh.release()
    guard let winner = unsafe Self.reference(result.original) else { return unsafe fresh }
    return unsafe winner
  }

  /// Calls `action` when the slot goes, which is when nothing names the table any more.
  func whenGone(_ action: @escaping @Sendable () -> Void) { obsolete.withLock { $0 = action } }
}
