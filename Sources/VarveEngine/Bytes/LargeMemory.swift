#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Memory that is mapped if it is large, so that a release returns it to the operating system at once.
///
/// The heap would keep large blocks after they are freed, and they would fragment it. Safe from any thread.
enum LargeMemory {
  /// The smallest size, in bytes, that is mapped.
  static let mappedSizeMinimum = 128 << 10

  /// Returns `size` bytes, aligned to 16. Throws `.noMemory`. Complexity: O(1), and a page fault at the first use of
  /// each page.
  static func reserve(_ size: Int) throws(EngineError) -> UnsafeMutableRawPointer {
    guard size >= mappedSizeMinimum else { return UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16) }
    let memory = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
    guard let memory = unsafe memory, unsafe memory != MAP_FAILED else {
      throw EngineError(.noMemory, "the system has no \(size) bytes of memory for a buffer: lower the memory budget")
    }
    return unsafe memory
  }

  /// Releases memory that `reserve` returned for the same size.
  static func release(_ base: UnsafeMutableRawPointer, _ size: Int) {
    if size >= mappedSizeMinimum {
      unsafe munmap(base, size)
    } else {
      unsafe base.deallocate()
    }
  }
}

/// A temporary array of a fixed count, which may be large.
///
/// # Safety
/// The array is the only owner of its memory. Each index is checked against the count.
///
/// # Concurrency
/// An array has a single owner and is not shared between threads.
@safe
struct ScratchArray<Element: BitwiseCopyable>: ~Copyable {
  private let base: UnsafeMutablePointer<Element>
  let count: Int

  /// Creates an array of `count` copies of `value`. Throws `.noMemory`.
  init(repeating value: Element, count: Int) throws(EngineError) {
    let memory = try unsafe LargeMemory.reserve(max(count, 1) * MemoryLayout<Element>.stride)
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

  /// Sorts by merging, and skips a merge if the two halves are already in order.
  ///
  /// Throws `.noMemory`, after which the order is undefined. Complexity: O(n log n), or O(n) for sorted input, and
  /// temporary memory for half of the elements.
  mutating func sort(by areInOrder: (Element, Element) -> Bool) throws(EngineError) {
    guard count > 1 else { return }
    var left = try ScratchArray(repeating: self[0], count: (count + 1) / 2)
    sort(0, count, &left, by: areInOrder)
  }

  private mutating func sort(
    _ lower: Int, _ upper: Int, _ left: inout ScratchArray, by areInOrder: (Element, Element) -> Bool
  ) {
    guard upper - lower > Self.insertedCount else { return insert(lower, upper, by: areInOrder) }
    let middle = (lower + upper + 1) / 2
    sort(lower, middle, &left, by: areInOrder)
    sort(middle, upper, &left, by: areInOrder)
    guard areInOrder(self[middle], self[middle - 1]) else { return }
    for index in lower..<middle { left[index - lower] = self[index] }
    var first = 0
    var second = middle
    var target = lower
    while first < middle - lower {
      if second < upper, areInOrder(self[second], left[first]) {
        self[target] = self[second]
        second += 1
      } else {
        self[target] = left[first]
        first += 1
      }
      target += 1
    }
  }

  /// The number of elements up to which a range is sorted by insertion.
  private static var insertedCount: Int { 16 }

  private mutating func insert(_ lower: Int, _ upper: Int, by areInOrder: (Element, Element) -> Bool) {
    for index in lower..<upper {
      let element = self[index]
      var target = index
      while target > lower, areInOrder(element, self[target - 1]) {
        self[target] = self[target - 1]
        target -= 1
      }
      self[target] = element
    }
  }
}
