internal import Synchronization

/// The root index of an open table, pinned in the cache by the first read and kept until the table is closed.
///
/// Every read of every thread begins at the root. Taking a pin each time would be two writes to one shared word; a
/// read of the pinned root is one load. The cache is charged for it as for any block.
///
/// # Safety
/// The object owns the memory at `address`, which is set once and freed by `release`.
///
/// # Concurrency
/// Safe from any thread.
@safe
struct PinnedRoot: ~Copyable {
  private struct Contents: ~Copyable {
    let block: IndexBlock
    let pin: BlockPin
  }

  private let address = Atomic<UInt>(0)

  init() {}

  /// Releases the pin. Called at the end of the table, while it still has its cache and when no thread reads it any
  /// more.
  func release() {
    guard let contents = unsafe pointer(address.exchange(0, ordering: .acquiring)) else { return }
    unsafe contents.deinitialize(count: 1)
    unsafe contents.deallocate()
  }

  private func pointer(_ bits: UInt) -> UnsafeMutablePointer<Contents>? {
    unsafe UnsafeMutablePointer<Contents>(bitPattern: bits)
  }

  /// Returns the root, which the first call loads. It is valid while the table is open.
  @inline(__always)
  func block(_ table: TableReader) throws(EngineError) -> IndexBlock {
    // Acquiring: pairs with the releasing exchange of `load`.
    if let contents = unsafe pointer(address.load(ordering: .acquiring)) { return unsafe contents.pointee.block }
    return try load(table)
  }

  @inline(never)
  private func load(_ table: TableReader) throws(EngineError) -> IndexBlock {
    let handle = table.footer.rootIndex
    let pin = try table.block(handle, .index)
    let block = IndexBlock(validated: pin.content)
    let fresh = UnsafeMutablePointer<Contents>.allocate(capacity: 1)
    unsafe fresh.initialize(to: Contents(block: block, pin: pin))
    let result = address.compareExchange(
      expected: 0, desired: UInt(bitPattern: fresh), ordering: .acquiringAndReleasing)
    if result.exchanged { return block }
    // Another thread stored its pin first, and that pin is used.
    unsafe fresh.deinitialize(count: 1)
    unsafe fresh.deallocate()
    guard let winner = unsafe pointer(result.original) else { return block }
    return unsafe winner.pointee.block
  }
}
