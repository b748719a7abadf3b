internal import Synchronization

/// The filter of an open table of small size: each page is pinned in the cache by the first read that looks at it, and
/// kept until the table is closed.
///
/// A lookup asks every table that may hold its key, and mostly is answered no. Through the cache an answer is three reads
/// of memory, each of which waits for the one before, and two writes to a shared word, for which the processor waits
/// before it begins with the next table. So it is one read, and a lookup asks for those of all tables at once
/// (`EngineCore.prefetchFilters`). Measured in the decision "the filters of a lookup at once".
///
/// Only of tables with at most `pageCountMaximum` pages, which are those of level 0 and of small databases: a page of a
/// large table is rarely asked again. All pinned pages of a cache together take at most its
/// `BlockCache.pinnedShare`; the cache is charged for them as for any block.
///
/// # Safety
/// The owner of the memory at `address`, which is set once and freed by `release`. A page's `base` is set once, by
/// the thread that then stores the pin, which `release` alone reads.
///
/// # Concurrency
/// Safe from any thread.
@safe
struct PinnedFilter: ~Copyable {
  /// 256 KiB, some 200,000 keys.
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

  /// The begin of a page that is pinned, valid while the table is open; nil for others.
  @inline(__always)
  func page(_ number: Int) -> UnsafeRawPointer? {
    // Acquiring: pairs with the exchanges of `keep`.
    guard let pages = unsafe pages(address.load(ordering: .acquiring)) else { return nil }
    return unsafe UnsafeRawPointer(bitPattern: pages[number].base.load(ordering: .acquiring))
  }

  /// Keeps the pin of a page, if that is to be pinned and no other thread was faster.
  func keep(_ number: Int, _ pin: consuming BlockPin, _ table: TableReader) {
    let count = TableFilter.pageCount(table.footer)
    // What the cache does not have does not belong to its capacity.
    guard count <= Self.pageCountMaximum, number < count, pin.isCached else { return }
    // Lines are read without a look at the size from here on.
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

  /// Gives the pins back. No thread reads any more: the end of the table, while it still has its cache.
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
