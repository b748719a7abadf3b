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
/// Any thread.
enum LargeMemory {
  /// Memory from this size on is mapped.
  static let mappedSizeMinimum = 128 << 10

  /// `size` bytes, aligned to 16, for an owner that has no error to throw: stops the process where the system has none,
  /// as an array does. Complexity: as `reserve`.
  static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
    do throws(EngineError) { return try unsafe reserve(size) } catch { fatalError("\(error)") }
  }

  /// `size` bytes, aligned to 16. Throws `.noMemory`. Complexity: O(1), and a page fault for each page at its first use.
  static func reserve(_ size: Int) throws(EngineError) -> UnsafeMutableRawPointer {
    guard size >= mappedSizeMinimum else { return UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16) }
    let memory = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0)
    guard let memory = unsafe memory, unsafe memory != MAP_FAILED else {
      throw EngineError(.noMemory, "the system has no \(size) bytes of memory for a buffer: lower the memory budget")
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

  /// As many as `count`, each the same. Throws `.noMemory`.
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

  /// Sorts by merging, and merges nothing where neighbours are in order already. Throws `.noMemory`, and the order is
  /// undefined then. Complexity: O(n log n), O(n) of what is sorted, and memory for half of the elements meanwhile.
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

  /// So few are sorted by insertion.
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
