internal import Synchronization

/// The range tombstones of an open table, read by the first caller and kept until the table is closed.
///
/// As with the root index, a read loads one word and counts no reference.
///
/// # Safety
/// The object owns one counted reference to the list in `bits`, which is set once and released by `release`.
///
/// # Concurrency
/// Safe from any thread.
@safe
struct LoadedTombstones: ~Copyable {
  private let bits = Atomic<UInt>(0)

  init() {}

  /// Releases the list. Called at the end of the table, when no thread reads it any more.
  func release() {
    unsafe Self.reference(bits.exchange(0, ordering: .acquiring))?.release()
  }

  private static func reference(_ bits: UInt) -> Unmanaged<RangeTombstoneList>? {
    unsafe UnsafeRawPointer(bitPattern: bits).map { unsafe Unmanaged<RangeTombstoneList>.fromOpaque($0) }
  }

  /// Returns the list, which the first call loads by `load`. It is valid while the table is open.
  @inline(__always)
  func list(
    _ load: () throws(EngineError) -> RangeTombstoneList
  ) throws(EngineError) -> Unmanaged<RangeTombstoneList> {
    // Acquiring: pairs with the releasing exchange of `store`.
    if let list = unsafe Self.reference(bits.load(ordering: .acquiring)) { return unsafe list }
    return unsafe store(try load())
  }

  @inline(never)
  private func store(_ list: RangeTombstoneList) -> Unmanaged<RangeTombstoneList> {
    let fresh = unsafe Unmanaged.passRetained(list)
    let result = bits.compareExchange(
      expected: 0, desired: unsafe UInt(bitPattern: fresh.toOpaque()), ordering: .acquiringAndReleasing)
    guard !result.exchanged, let winner = unsafe Self.reference(result.original) else { return unsafe fresh }
    // Another thread stored its list first, and that list is used.
    unsafe fresh.release()
    return unsafe winner
  }
}
