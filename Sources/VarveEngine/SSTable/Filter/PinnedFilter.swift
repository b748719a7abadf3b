internal import Synchronization

/// The filter of a small open table, whose pages are pinned in the cache.
///
/// The first read that uses a page pins it, and it is kept until the table is closed. A lookup asks every table that
/// may contain its key, and most of them answer no. Through the cache, an answer takes three dependent reads of
/// memory and two writes to a shared word, for which the processor waits before it continues with the next table.
/// With a pinned page it takes one read, and a lookup issues the reads of all tables at once
/// (`EngineCore.prefetchFilters`). Measured in the decision "A lookup prefetches all filters at once".
///
/// Only tables with at most `pageCountMaximum` pages are pinned, which are those of level 0 and of small databases,
/// because a page of a large table is rarely read again. All pinned pages of a cache together take at most its
/// `BlockCache.pinnedShare`. The cache is charged for them as for any block.
///
/// # Safety
/// The object owns the memory at `address`, which is set once and freed by `release`. A page's `base` is set once, by
/// the thread that then stores the pin. Only `release` reads the pin.
///
/// # Concurrency
/// Safe from any thread.
@safe
struct PinnedFilter: ~Copyable {
  /// The maximum number of pages of a pinned filter: 256 KiB, some 200,000 keys.
  static let pageCountMaximum = 64

  private struct Page: ~Copyable {
    let base = Atomic<UInt>(0)
    var pin: BlockPin?

    init() { pin = nil }
  }

  private let address = Atomic<UInt>(0)

  init() {}

  private func pages(_ bits: UInt) -> UnsafeMutablePointer<Page>? {
    unsafe UnsafeMutablePointer<Page>(bitPattern: bits)
  }

  /// Returns the address of a pinned page, valid while the table is open, or nil if the page is not pinned.
  @inline(__always)
  func page(_ number: Int) -> UnsafeRawPointer? {
    // Acquiring: pairs with the exchanges of `keep`.
    guard let pages = unsafe pages(address.load(ordering: .acquiring)) else { return nil }
    return unsafe UnsafeRawPointer(bitPattern: pages[number].base.load(ordering: .acquiring))
  }

  /// Keeps the pin of a page, if the page may be pinned and no other thread has pinned it first.
  func keep(_ number: Int, _ pin: consuming BlockPin, _ table: TableReader) {
    let count = TableFilter.pageCount(table.footer)
    // A block that is not in the cache does not count towards its capacity.
    guard count <= Self.pageCountMaximum, number < count, pin.isCached else { return }
    // From here on, lines are read without a check of the size.
    guard pin.view.count >= Int(TableFilter.handle(number, table.footer).contentSize) else { return }
    let size = Self.charge(pin.view.count)
    guard table.cache.reservePinned(size) else { return }
    let pages = unsafe makePages(count)
    let base = unsafe UInt(bitPattern: pin.view.base)
    guard unsafe pages[number].base.compareExchange(expected: 0, desired: base, ordering: .releasing).exchanged else {
      table.cache.releasePinned(size)
      return
    }
    unsafe pages[number].pin = consume pin
  }

  private func makePages(_ count: Int) -> UnsafeMutablePointer<Page> {
    if let pages = unsafe pages(address.load(ordering: .acquiring)) { return unsafe pages }
    let fresh = UnsafeMutablePointer<Page>.allocate(capacity: count)
    for number in 0..<count { unsafe (fresh + number).initialize(to: Page()) }
    let result = address.compareExchange(
      expected: 0, desired: UInt(bitPattern: fresh), ordering: .acquiringAndReleasing)
    guard !result.exchanged, let winner = unsafe pages(result.original) else { return unsafe fresh }
    unsafe fresh.deinitialize(count: count)
    unsafe fresh.deallocate()
    return unsafe winner
  }

  /// Releases the pins. Called at the end of the table, while it still has its cache and when no thread reads it any
  /// more.
  func release(_ table: TableReader) {
    guard let pages = unsafe pages(address.exchange(0, ordering: .acquiring)) else { return }
    let count = TableFilter.pageCount(table.footer)
    var size = 0
    for number in 0..<count {
      if let pinned = unsafe pages[number].pin?.view.count { size += Self.charge(pinned) }
    }
    table.cache.releasePinned(size)
    unsafe pages.deinitialize(count: count)
    unsafe pages.deallocate()
  }

  private static func charge(_ blockSize: Int) -> Int { blockSize + CacheSlot.overhead }
}
