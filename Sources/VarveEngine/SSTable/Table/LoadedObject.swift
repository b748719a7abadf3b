internal import Synchronization

/// An object of an open table, read by the first caller and kept until the table is closed: its range tombstones, or
/// their index.
///
/// As with the root index, a read loads one word and counts no reference.
///
/// # Safety
/// The object owns one counted reference to the object in `bits`, which is set once and released by `release`.
///
/// # Concurrency
/// Safe from any thread.
@safe
struct LoadedObject<Object: AnyObject & Sendable>: ~Copyable {
  private let bits = Atomic<UInt>(0)

  init() {}

  /// Releases the object. Called at the end of the table, when no thread reads it any more.
  func release() {
    unsafe Self.reference(bits.exchange(0, ordering: .acquiring))?.release()
  }

  private static func reference(_ bits: UInt) -> Unmanaged<Object>? {
    unsafe UnsafeRawPointer(bitPattern: bits).map { unsafe Unmanaged<Object>.fromOpaque($0) }
  }

  /// Returns the object, which the first call loads by `load`. It is valid while the table is open.
  @inline(__always)
  func get(
    _ load: () throws(EngineError) -> Object
  ) throws(EngineError) -> Unmanaged<Object> {
    // Acquiring: pairs with the releasing exchange of `store`.
    if let object = unsafe Self.reference(bits.load(ordering: .acquiring)) { return unsafe object }
    return unsafe store(try load())
  }

  @inline(never)
  private func store(_ object: Object) -> Unmanaged<Object> {
    let fresh = unsafe Unmanaged.passRetained(object)
    let result = bits.compareExchange(
      expected: 0, desired: unsafe UInt(bitPattern: fresh.toOpaque()), ordering: .acquiringAndReleasing)
    guard !result.exchanged, let winner = unsafe Self.reference(result.original) else { return unsafe fresh }
    // Another thread stored its object first, and that one is used.
    unsafe fresh.release()
    return unsafe winner
  }
}
