internal import FutexLocks
internal import Synchronization

/// The slot of a table for its open reader. The first read opens the table, and it may be closed at any time
/// (`OpenTables`).
///
/// The slot also records whether the file is obsolete: the file is then released when the last Version, cursor or job
/// that names the table is gone.
///
/// # Invariants
/// 1. A nonzero `bits` holds one counted reference to a reader. It is stored and removed only under the lock of the
///    `OpenTables` in whose ring the slot is.
///
/// # Concurrency
/// Safe from any thread. `reader` is called inside a read epoch that lasts as long as its result is used without a
/// reference: a removed reader is released after that.
final class TableReaderSlot: @unchecked Sendable {
  // Sendable: the lock of `OpenTables` guards `ringIndex`; the rest is atomic or in a mutex.
  private let bits = Atomic<UInt>(0)
  /// Whether the table was read since the clock's hand last passed.
  private let touched = Atomic<Bool>(false)
  private let state = FutexLock(State())
  /// The index in the ring of `OpenTables`, which sets it.
  var ringIndex = 0

  private struct State {
    /// The object in whose ring the slot has been.
    var tables: OpenTables?
    var whenGone: (@Sendable () -> Void)?
    /// The file, if another process may remove it before a read opens the table.
    var keptFile: (any File)?
  }

  deinit { withExtendedLifetime(takeReader()) {} }

  private static func reference(_ bits: UInt) -> Unmanaged<TableReader>? {
    unsafe UnsafeRawPointer(bitPattern: bits).map { unsafe Unmanaged<TableReader>.fromOpaque($0) }
  }

  /// Returns the reader, and opens the table if necessary. Called only inside a read epoch.
  @inline(__always)
  func reader(
    in tables: OpenTables, _ open: () throws(EngineError) -> TableReader
  ) throws(EngineError) -> Unmanaged<TableReader> {
    // The load is sequentially consistent, as `ReadEpochs` requires. It pairs with the exchange in `takeReader`.
    if let reader = unsafe Self.reference(bits.load(ordering: .sequentiallyConsistent)) {
      // The flag is loaded first, because a store would take the cache line from the other readers each time.
      if !touched.load(ordering: .relaxed) { touched.store(true, ordering: .relaxed) }
      return unsafe reader
    }
    return unsafe try openReader(in: tables, open)
  }

  /// The reader, if the table is open. The access does not count as a read of the table. Only inside a read epoch.
  @inline(__always)
  var present: Unmanaged<TableReader>? {
    // The load is sequentially consistent, as in `reader`.
    unsafe Self.reference(bits.load(ordering: .sequentiallyConsistent))
  }

  @inline(never)
  private func openReader(
    in tables: OpenTables, _ open: () throws(EngineError) -> TableReader
  ) throws(EngineError) -> Unmanaged<TableReader> {
    let fresh = try open()
    state.withLock { $0.tables = tables }
    // The caller's epoch keeps the reader, even if it is closed before this returns.
    return unsafe Unmanaged.passUnretained(tables.install(fresh, in: self))
  }

  // MARK: - For OpenTables, under its lock

  var storedReader: TableReader? {
    unsafe Self.reference(bits.load(ordering: .acquiring))?.takeUnretainedValue()
  }

  /// Stores a reader. Requires that the slot is empty.
  func store(_ reader: TableReader, ringIndex: Int) {
    self.ringIndex = ringIndex
    touched.store(false, ordering: .relaxed)
    let reference = unsafe Unmanaged.passRetained(reader)
    bits.store(unsafe UInt(bitPattern: reference.toOpaque()), ordering: .sequentiallyConsistent)
  }

  /// Removes the reader. Reads that begin afterwards open the table again.
  func takeReader() -> TableReader? {
    unsafe Self.reference(bits.exchange(0, ordering: .sequentiallyConsistent))?.takeRetainedValue()
  }

  /// Returns whether the table was read since the last call.
  func takeTouch() -> Bool {
    guard touched.load(ordering: .relaxed) else { return false }
    touched.store(false, ordering: .relaxed)
    return true
  }

  // MARK: - Tables that another process may remove

  /// The file on which readers of the table are opened, as long as the table lives.
  var keptFile: (any File)? { state.withLock { $0.keptFile } }

  func keep(_ file: any File) { state.withLock { $0.keptFile = file } }

  // MARK: - The end of the table

  /// Calls `action` at the end of the table, when no version, cursor or job names it any more.
  func whenGone(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.whenGone = action } }

  /// Ends the table. No view contains it, so no read can begin.
  func end() {
    let state = state.withLock { state in
      defer { state = State() }
      return state
    }
    state.tables?.remove(self)
    state.whenGone?()
  }
}
