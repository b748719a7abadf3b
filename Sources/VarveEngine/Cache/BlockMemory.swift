#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The memory of one decoded block, before the cache has it.
///
/// Whoever decodes a block allocates this, fills it and gives it to `BlockCache.insert` or
/// `BlockPin.init(owning:)`. If an error comes between, it is freed by itself.
///
/// # Safety
/// The only owner of its memory; `base` is valid until it is given away.
@safe
struct BlockMemory: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  let base: UnsafeMutableRawPointer
  let count: Int

  private init(base: UnsafeMutableRawPointer, count: Int) {
    unsafe self.base = base
    self.count = count
  }

  deinit { unsafe free(base) }

  /// Memory of undefined content, aligned to 16 bytes, or to `alignment`, a larger power of two
  /// (filters want 64, the size of their lines).
  static func allocate(_ count: Int, alignment: Int = 16) -> BlockMemory {
    precondition(count >= 0, "a block of a negative size")
    // At least a pointer: an evicted block is linked into a list through its own bytes.
    let size = max(count, 16)
    var base: UnsafeMutableRawPointer?
    if alignment <= 16 {
      unsafe base = malloc(size)
    } else if unsafe posix_memalign(&base, alignment, size) != 0 {
      unsafe base = nil
    }
    guard let base = unsafe base else {
      fatalError("no memory for a block of \(count) bytes: lower the memory budget")
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

  /// Frees what `take` gave away.
  @inline(__always)
  static func release(_ base: UnsafeMutableRawPointer) { unsafe free(base) }
}

/// Blocks to be freed after a lock was given back, linked through their own first bytes: freeing a
/// large one is a system call, and a list of them would be an allocation.
@safe
struct BlockMemoryChain: @unchecked Sendable {
  // Sendable: owner of what it links.
  private var head: UnsafeMutableRawPointer?

  init() { unsafe head = nil }

  mutating func push(_ base: UnsafeMutableRawPointer) {
    unsafe base.storeBytes(of: head, as: UnsafeMutableRawPointer?.self)
    unsafe head = base
  }

  mutating func releaseAll() {
    while let base = unsafe head {
      unsafe head = base.load(as: UnsafeMutableRawPointer?.self)
      unsafe BlockMemory.release(base)
    }
  }
}
