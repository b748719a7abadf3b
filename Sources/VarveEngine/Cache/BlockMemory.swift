internal import CVarve

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The memory of one decoded block, before the cache has it.
///
/// A caller that decodes a block allocates this, fills it and gives it to `BlockCache.insert` or
/// `BlockPin.init(owning:)`. If an error comes between, it is freed by itself.
///
/// Small blocks come from `malloc`, those from 128 KiB (filters, large values) from `mmap`. Measured
/// with glibc, a cache of 256 MiB, blocks of 14 to 18 KB and one filter of 500 to 900 KB in 50: 318 MiB
/// resident with `malloc` alone, which after the first freed large block serves large ones from the
/// heap and tears it, 280 MiB so. `trim` gives back what a smaller cache leaves of the heap.
///
/// # Safety
/// The only owner of its memory; `base` is valid until it is given away.
@safe
struct BlockMemory: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  let base: UnsafeMutableRawPointer
  let count: Int

  /// From here on blocks are mapped: page alignment wastes less than a thirtieth then.
  static let mappedSizeMinimum = 128 << 10

  private init(base: UnsafeMutableRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  deinit { unsafe BlockMemory.release(base, count) }

  /// Memory of undefined content, aligned to 16 bytes, or to `alignment`, a larger power of two up to
  /// 4,096 (filters want 64, the size of their lines).
  /// Throws `.noMemory`.
  static func allocate(_ count: Int, alignment: Int = 16) throws(EngineError) -> BlockMemory {
    precondition(count >= 0 && alignment <= 4_096, "a block of a negative size, or aligned beyond a page")
    var base: UnsafeMutableRawPointer?
    if count >= mappedSizeMinimum {
      unsafe base = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
      if unsafe base == MAP_FAILED { unsafe base = nil }
    } else if alignment <= 16 {
      // At least two words: an evicted block is linked into a list through its own bytes.
      unsafe base = malloc(max(count, 16))
    } else if unsafe posix_memalign(&base, alignment, max(count, 16)) != 0 {
      unsafe base = nil
    }
    guard let base = unsafe base else {
      throw EngineError(.noMemory, "the system has no \(count) bytes of memory for a block: lower the memory budget")
    }
    return unsafe BlockMemory(base: base, count: count)
  }

  var view: ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: count) }
  /// To be filled by who decodes the block.
  var buffer: UnsafeMutableRawBufferPointer { unsafe UnsafeMutableRawBufferPointer(start: base, count: count) }

  /// Gives the memory away: it is to be freed by `BlockMemory.release`.
  @inline(__always)
  consuming func take() -> UnsafeMutableRawPointer {
    let base = unsafe base
    discard self
    return unsafe base
  }

  /// Frees what `take` gave away; `count` is that of the block.
  static func release(_ base: UnsafeMutableRawPointer, _ count: Int) {
    if count >= mappedSizeMinimum {
      unsafe munmap(base, count)
    } else {
      unsafe free(base)
    }
  }

  /// Gives the pages of freed blocks back to the operating system. Takes milliseconds where much was
  /// freed: for the caller that made a cache much smaller.
  static func trim() { cvarve_trim_heap() }
}

/// Blocks to be freed after a lock was given back, linked through their own first bytes: freeing a
/// large one is a system call, and a list of them would be an allocation.
@safe
struct BlockMemoryChain: @unchecked Sendable {
  // Sendable: owner of what it links.
  private var head: UnsafeMutableRawPointer?

  init() { unsafe head = nil }

  mutating func push(_ base: UnsafeMutableRawPointer, _ count: Int) {
    unsafe base.storeBytes(of: head, as: UnsafeMutableRawPointer?.self)
    unsafe base.storeBytes(of: count, toByteOffset: 8, as: Int.self)
    unsafe head = base
  }

  mutating func releaseAll() {
    while let base = unsafe head {
      unsafe head = base.load(as: UnsafeMutableRawPointer?.self)
      unsafe BlockMemory.release(base, base.load(fromByteOffset: 8, as: Int.self))
    }
  }
}
