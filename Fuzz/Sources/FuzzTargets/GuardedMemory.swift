@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Memory between two inaccessible pages: a read outside an input ends the process at once, even without a sanitizer.
///
/// An input is at the end of the memory, or at its beginning if its size is an odd multiple of 8, so both edges are
/// checked.
///
/// # Safety
/// The object owns the mapping. The view of an input is valid until the next one is copied in.
@safe
package final class GuardedMemory {
  private let base: UnsafeMutableRawPointer
  private let pageSize: Int
  private let capacity: Int

  /// Creates memory for inputs of the largest size.
  package init() {
    pageSize = Int(getpagesize())
    capacity = (FuzzTarget.inputSizeMaximum + pageSize - 1) / pageSize * pageSize
    let size = capacity + 2 * pageSize
    let mapping = unsafe mmap(nil, size, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0)
    guard let mapping = unsafe mapping, unsafe mapping != MAP_FAILED,
      unsafe mprotect(mapping + pageSize, capacity, PROT_READ | PROT_WRITE) == 0
    else { fatalError("no \(size) bytes of addresses: raise the limit of the process") }
    unsafe base = mapping
  }

  deinit { unsafe _ = munmap(base, capacity + 2 * pageSize) }

  /// Copies the bytes, at most `FuzzTarget.inputSizeMaximum` of them, to an edge.
  func copyIn(_ bytes: [UInt8]) -> ByteView {
    let count = min(bytes.count, FuzzTarget.inputSizeMaximum)
    let isAtBegin = count % 16 == 8
    let start = unsafe base + pageSize + (isAtBegin ? 0 : capacity - count)
    bytes.withByteView { unsafe start.copyMemory(from: $0.base, byteCount: count) }
    return unsafe ByteView(base: UnsafeRawPointer(start), count: count)
  }
}
