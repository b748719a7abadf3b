#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif
internal import CVarve
internal import Synchronization

/// The memory of one memtable: address space reserved at once, pages touched as entries come.
///
/// Places are 32-bit offsets that count words of eight bytes, so an arena can be 32 GiB. Nothing is
/// freed before the arena is: what a reader found stays valid as long as its memtable.
///
/// # Safety
/// Owner of the mapping. `allocate` hands out disjoint ranges inside of it.
///
/// # Concurrency
/// `allocate` belongs to the memtable's one writer. Reading what an offset names is for everybody who
/// got the offset by an acquire that follows the writer's release.
@safe
final class MemTableArena: @unchecked Sendable {
  // Sendable: the base never changes, the rest is the writer's or atomic.
  let base: UnsafeMutableRawPointer
  /// The bytes reserved.
  let size: Int
  private let usedBytes = Atomic<Int>(0)
  /// The writer's own copy of `usedBytes`.
  private var used = MemTableArena.firstOffset

  /// Offset 0 means nothing, so nothing begins there.
  private static let firstOffset = 64
  /// Below this, pages of 2 MiB would cost more than an arena holds.
  private static let hugePageMinimum = 4 << 20

  /// Reserves memory. A system that has no address space left stops the process: that is no input or
  /// output, and nothing could go on.
  init(size: Int) {
    let rounded = (size + 4095) & ~4095
    self.size = rounded
    let memory = unsafe mmap(
      nil, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | Self.anonymous | Self.noReserve, -1, 0)
    guard let memory = unsafe memory, unsafe memory != MAP_FAILED else {
      fatalError("no address space for a memtable of \(rounded) bytes; raise the limit (ulimit -v) or lower memtableSize")
    }
    unsafe base = memory
    if rounded >= Self.hugePageMinimum { unsafe cvarve_advise_huge_pages(base, rounded) }
  }

  deinit { unsafe _ = munmap(base, size) }

  #if canImport(Darwin)
    private static let anonymous = MAP_ANON
    private static let noReserve = MAP_NORESERVE
  #else
    private static let anonymous = Int32(MAP_ANONYMOUS)
    private static let noReserve = Int32(MAP_NORESERVE)
  #endif

  /// The bytes handed out.
  var touched: Int { usedBytes.load(ordering: .relaxed) }
  /// The same, for the writer.
  @inline(__always)
  var writerUsed: Int { used }

  /// Makes the arena empty again, for the next memtable. Nobody may hold anything of the last one.
  func reset() {
    used = Self.firstOffset
    usedBytes.store(0, ordering: .relaxed)
  }

  /// Hands out `count` bytes as an offset in words. The caller made sure that they are there.
  @inline(__always)
  func allocate(_ count: Int) -> UInt32 {
    let start = used
    used &+= (count &+ 7) & ~7
    precondition(used <= size, "a memtable outgrew its memory; ask hasRoom before inserting")
    usedBytes.store(used, ordering: .relaxed)
    return UInt32(truncatingIfNeeded: start >> 3)
  }

  @inline(__always)
  func address(_ offset: UInt32) -> UnsafeMutableRawPointer { unsafe base + (Int(offset) << 3) }
}

/// Arenas of retired memtables, whose pages are there already, for the next ones.
///
/// Safe from any thread.
final class MemTableArenaPool: Sendable {
  private let waiting = Mutex<[MemTableArena]>([])
  private let maximum: Int

  /// Keeps at most so many arenas.
  init(maximum: Int = 2) { self.maximum = maximum }

  /// An empty arena of just this size.
  func take(size: Int) -> MemTableArena {
    let rounded = (size + 4095) & ~4095
    let found = waiting.withLock { list in
      list.firstIndex { $0.size == rounded }.map { list.remove(at: $0) }
    }
    return found ?? MemTableArena(size: rounded)
  }

  /// Keeps an arena that nobody uses any more. One that was hardly touched is not worth keeping.
  func giveBack(_ arena: MemTableArena) {
    guard arena.touched >= arena.size / 2 else { return }
    arena.reset()
    waiting.withLock { list in if list.count < maximum { list.append(arena) } }
  }

  /// Bytes held by waiting arenas.
  var waitingBytes: Int { waiting.withLock { $0.reduce(0) { $0 + $1.size } } }
}
