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
/// A caller that decodes a block allocates this memory, fills it, and passes it to `BlockCache.insert` or
/// `BlockPin.init(owning:)`. If an error occurs in between, the memory is freed automatically.
///
/// Small blocks come from `malloc`, those from 128 KiB on (filters, large values) from `mmap`. Measured with glibc, a
/// cache of 256 MiB, blocks of 14 to 18 KB, and one filter of 500 to 900 KB in 50 blocks: 318 MiB are resident with
/// `malloc` alone, which after the first freed large block allocates large ones from the heap and fragments it; 280 MiB
/// are resident with `mmap`. `trim` returns the pages of the heap that a smaller cache leaves unused.
///
/// # Safety
/// The value is the only owner of its memory; `base` is valid until the memory is taken.
@safe
struct BlockMemory: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  let base: UnsafeMutableRawPointer
  let count: Int

  /// The size from which blocks are mapped: page alignment then wastes less than a thirtieth.
  static let mappedSizeMinimum = 128 << 10

  private init(base: UnsafeMutableRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  deinit { unsafe BlockMemory.release(base, count) }

  /// Allocates memory of undefined content. Throws `.noMemory`.
  ///
  /// It is aligned to 16 bytes, or to `alignment`, a larger power of two up to 4,096 (filters need 64, the size of
  /// their lines).
  static func allocate(_ count: Int, alignment: Int = 16) throws(EngineError) -> BlockMemory {
    precondition(count >= 0 && alignment <= 4_096, "a block of a negative size, or aligned beyond a page")
    var base: UnsafeMutableRawPointer?
    if count >= mappedSizeMinimum {
      unsafe base = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
      if unsafe base == MAP_FAILED { unsafe base = nil }
    } else if alignment <= 16 {
      // At least two words are allocated, because an evicted block is linked into a list through its own bytes.
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
  /// The memory as a buffer, for the caller that decodes the block.
  var buffer: UnsafeMutableRawBufferPointer { unsafe UnsafeMutableRawBufferPointer(start: base, count: count) }

  /// Returns the memory and gives up its ownership: the caller frees it by `BlockMemory.release`.
  @inline(__always)
  consuming func take() -> UnsafeMutableRawPointer {
    let base = unsafe base
    discard self
    return unsafe base
  }

  /// Returns the first `count` bytes of mapped memory, which are mapped memory as well, and releases the pages after
  /// them.
  consuming func shortened(to count: Int) -> BlockMemory {
    let present = self.count
    precondition(count >= BlockMemory.mappedSizeMinimum && count <= present, "a block is shortened, and stays mapped")
    let page = sysconf(Int32(_SC_PAGESIZE))
    let base = unsafe take()
    let kept = (count + page - 1) / page * page
    if kept < present { unsafe munmap(base + kept, present - kept) }
    return unsafe BlockMemory(base: base, count: count)
  }

  /// Frees memory that `take` returned; `count` is that of the block.
  static func release(_ base: UnsafeMutableRawPointer, _ count: Int) {
    if count >= mappedSizeMinimum {
      unsafe munmap(base, count)
    } else {
      unsafe free(base)
    }
  }

  /// Returns the pages of freed blocks to the operating system.
  ///
  /// It takes milliseconds if many were freed, so it is for a caller that made a cache much smaller.
  static func trim() { cvarve_trim_heap() }
}

/// Blocks that are freed after a lock is released, linked through their own first bytes.
///
/// Freeing a large block is a system call, and an array of blocks would need an allocation.
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
