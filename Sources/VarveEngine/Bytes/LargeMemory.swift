#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Memory that goes back to the system when it is released, if it is large: such memory is mapped. The heap keeps what was
/// large, and is torn by it.
///
/// Stops the process where the system has none, as an array does: an owner of a buffer has no error to throw. Any thread.
enum LargeMemory {
  /// Memory from this size on is mapped.
  static let mappedSizeMinimum = 128 << 10

  /// `size` bytes, aligned to 16. Complexity: O(1), and a page fault for each page at its first use.
  static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
    guard size >= mappedSizeMinimum else { return UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16) }
    let memory = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
    guard let memory = unsafe memory, unsafe memory != MAP_FAILED else {
      fatalError("no memory for a buffer of \(size) bytes: lower the memory budget")
    }
    return unsafe memory
  }

  /// Releases what `allocate` returned for the same size.
  static func release(_ base: UnsafeMutableRawPointer, _ size: Int) {
    if size >= mappedSizeMinimum {
      unsafe munmap(base, size)
    } else {
      unsafe base.deallocate()
    }
  }
}

/// An array of a fixed count that is needed for moments and may be large.
///
/// # Safety
/// The only owner of its memory; an index is checked against the count.
///
/// # Concurrency
/// One owner's.
@safe
struct ScratchArray<Element: BitwiseCopyable>: ~Copyable {
  private let base: UnsafeMutablePointer<Element>
  let count: Int

  /// As many as `count`, each the same.
  init(repeating value: Element, count: Int) {
    let memory = unsafe LargeMemory.allocate(max(count, 1) * MemoryLayout<Element>.stride)
    unsafe base = memory.bindMemory(to: Element.self, capacity: max(count, 1))
    unsafe base.initialize(repeating: value, count: count)
    self.count = count
  }

  deinit { unsafe LargeMemory.release(base, max(count, 1) * MemoryLayout<Element>.stride) }

  @inline(__always)
  subscript(index: Int) -> Element {
    get {
      precondition(index >= 0 && index < count, "an element outside the array")
      return unsafe base[index]
    }
    set {
      precondition(index >= 0 && index < count, "an element outside the array")
      unsafe base[index] = newValue
    }
  }

  /// Complexity: O(n log n), and memory for half of the elements meanwhile.
  mutating func sort(by areInOrder: (Element, Element) -> Bool) {
    var buffer = unsafe UnsafeMutableBufferPointer(start: base, count: count)
    unsafe buffer.sort(by: areInOrder)
  }
}
