internal import FutexLocks
internal import Synchronization

/// Where a table keeps its open reader: nothing is opened until the first read touches it, and it may be
/// closed at any time (`OpenTables`).
///
/// Also knows whether the file is obsolete: then it is given up when the last Version, cursor or job
/// that names the table has gone.
///
/// # Invariants
/// 1. A nonzero `bits` holds one counted reference to a reader. It is stored and taken out only under the
///    lock of the `OpenTables` that the slot stands in.
///
/// # Concurrency
/// Safe from any thread. `reader` is called inside a read epoch that lasts as long as its result is used
/// without a reference: a reader that was taken out is released after that.
final class TableReaderSlot: @unchecked Sendable {
  // Sendable: `ringIndex` is guarded by the lock of `OpenTables`, the rest is atomic or in a mutex.
  private let bits = Atomic<UInt>(0)
  /// Whether it was read since the clock's hand came by.
  private let touched = Atomic<Bool>(false)
  private let state = FutexLock(State())
  /// The position in the ring of `OpenTables`, and its.
  var ringIndex = 0

  private struct State {
    /// Whose ring the slot has been in.
    var tables: OpenTables?
    var whenGone: (@Sendable () -> Void)?
    /// The file, where someone else may remove it before a read touches the table.
    var keptFile: (any File)?
  }

  deinit { withExtendedLifetime(takeReader()) {} }

  private static func reference(_ bits: UInt) -> Unmanaged<TableReader>? {
    unsafe UnsafeRawPointer(bitPattern: bits).map { unsafe Unmanaged<TableReader>.fromOpaque($0) }
  }

  /// The reader, opened where it isn't. Only inside a read epoch.
  @inline(__always)
  func reader(
    in tables: OpenTables, _ open: () throws(EngineError) -> TableReader
  ) throws(EngineError) -> Unmanaged<TableReader> {
    // Sequentially consistent, as `ReadEpochs` wants it; partner: the exchange in `takeReader`.
    if let reader = unsafe Self.reference(bits.load(ordering: .sequentiallyConsistent)) {
      // Looked at first: a store would take the cache line from the other readers each time.
      if !touched.load(ordering: .relaxed) { touched.store(true, ordering: .relaxed) }
      return unsafe reader
    }
    return unsafe try openReader(in: tables, open)
  }

  /// The reader, where the table is open; this does not count as a read of it. Only inside a read epoch.
  @inline(__always)
  var present: Unmanaged<TableReader>? {
    // Sequentially consistent: as in `reader`.
    unsafe Self.reference(bits.load(ordering: .sequentiallyConsistent))
  }

  @inline(never)
  private func openReader(
    in tables: OpenTables, _ open: () throws(EngineError) -> TableReader
  ) throws(EngineError) -> Unmanaged<TableReader> {
    let fresh = try open()
    state.withLock { $0.tables = tables }
    // The caller's epoch keeps it, even if it is closed before this returns.
    return unsafe Unmanaged.passUnretained(tables.install(fresh, in: self))
  }

  // MARK: - For OpenTables, under its lock

  var storedReader: TableReader? {
    unsafe Self.reference(bits.load(ordering: .acquiring))?.takeUnretainedValue()
  }

  /// Requires: the slot is empty.
  func store(_ reader: TableReader, ringIndex: Int) {
    self.ringIndex = ringIndex
    touched.store(false, ordering: .relaxed)
    let reference = unsafe Unmanaged.passRetained(reader)
    bits.store(unsafe UInt(bitPattern: reference.toOpaque()), ordering: .sequentiallyConsistent)
  }

  /// Takes the reader out: reads that begin from now on open the table again.
  func takeReader() -> TableReader? {
    unsafe Self.reference(bits.exchange(0, ordering: .sequentiallyConsistent))?.takeRetainedValue()
  }

  /// Whether it was read since the last call.
  func takeTouch() -> Bool {
    guard touched.load(ordering: .relaxed) else { return false }
    touched.store(false, ordering: .relaxed)
    return true
  }

  // MARK: - Tables that another process may remove

  /// The file that readers of the table are opened on, as long as the table lives.
  var keptFile: (any File)? { state.withLock { $0.keptFile } }

  func keep(_ file: any File) { state.withLock { $0.keptFile = file } }

  // MARK: - The end of the table

  /// Calls `action` when the table goes, which is when nothing names it any more.
  func whenGone(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.whenGone = action } }

  /// The table goes: no view has it, so no read does.
  func end() {
    let state = state.withLock { state in
      defer { state = State() }
      return state
    }
    state.tables?.remove(self)
    state.whenGone?()
  }
}
