internal import Synchronization

/// The bytes of a file in memory: a list of extents that never move.
///
///     extent 0          extent 1                  extent 2
///     [0 ... 4096)      [4096 ... 12288)          [12288 ... 28672)        size <= 28672
///
/// Each extent is as large as all before it together, within bounds, so that growth copies nothing and a file of n
/// bytes has O(log n + n / 4 MiB) of them.
///
/// # Invariants
/// 1. The extents follow each other without a gap, from 0, and cover `size`.
/// 2. A mapping shares the memory of extent 0 and keeps it alive. Extents are merged into a longer extent 0 only
///    while no mapping shares it.
/// 3. Bytes at and above `size` have no meaning: an operation that extends the file writes zeros first.
///
/// # Concurrency
/// The mutex guards `content`, but not bytes stored through a mapping: callers that store and read the same bytes
/// must order these accesses themselves, as with the operating system's files.
final class MemoryContent: Sendable {
  /// Memory that is freed with the last reference.
  ///
  /// # Safety
  /// `base` has `size` bytes while the object lives.
  @safe
  final class Memory: @unchecked Sendable {
    // Sendable: the pointer does not change; the access to the bytes is described above.
    let base: UnsafeMutableRawPointer
    let size: Int
    init(size: Int) {
      // The memory is page-aligned, as a mapping of the operating system is.
      unsafe base = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 4096)
      self.size = size
    }
    deinit { unsafe base.deallocate() }
  }

  private struct Extent {
    let start: Int
    var memory: Memory
    var end: Int { start + memory.size }
  }

  private struct Content {
    var size = 0
    var extents: [Extent] = []
    var capacity: Int { extents.last?.end ?? 0 }
  }

  private static let extentSizeMinimum = 4096
  private static let extentSizeMaximum = 4 << 20

  private let budget: MemoryCapacity
  private let content = Mutex(Content())

  init(budget: MemoryCapacity) { self.budget = budget }

  deinit { budget.giveBack(UInt64(size)) }

  var size: Int { content.withLock { $0.size } }

  /// Copies at most `buffer.count` bytes of the file from `offset`. Returns the number of bytes copied.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    content.withLock { content in
      guard let base = buffer.baseAddress, offset < content.size else { return 0 }
      let count = min(buffer.count, content.size - offset)
      unsafe Self.visit(content, offset, count) { memory, done, count in
        unsafe (base + done).copyMemory(from: memory, byteCount: count)
      }
      return count
    }
  }

  /// Writes bytes. Returns false, and writes nothing, if they don't fit into the budget.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Bool {
    content.withLock { content in
      guard let base = bytes.baseAddress else { return true }
      let end = offset + bytes.count
      if end > content.size {
        guard budget.take(UInt64(end - content.size)) else { return false }
        Self.extend(&content, to: end, zeroTo: offset)
      }
      unsafe Self.visit(content, offset, bytes.count) { memory, done, count in
        unsafe memory.copyMemory(from: base + done, byteCount: count)
      }
      return true
    }
  }

  /// Changes the size. Returns false, and changes nothing, if the added zeros don't fit into the budget.
  func truncate(to size: Int) -> Bool {
    content.withLock { content in
      if size > content.size {
        guard budget.take(UInt64(size - content.size)) else { return false }
        Self.extend(&content, to: size, zeroTo: size)
      } else {
        budget.giveBack(UInt64(content.size - size))
        content.size = size
        while let last = content.extents.last, last.start >= size, last.start > 0 { content.extents.removeLast() }
      }
      return true
    }
  }

  /// Returns the memory of the first `size` bytes as one piece, or nil if they are in several pieces that a mapping
  /// prevents from being merged. Requires that the file has them.
  func memory(size: Int) -> Memory? {
    content.withLock { content in
      guard content.extents[0].memory.size < size else { return content.extents[0].memory }
      guard isKnownUniquelyReferenced(&content.extents[0].memory) else { return nil }
      let whole = Memory(size: content.capacity)
      for extent in content.extents {
        unsafe (whole.base + extent.start).copyMemory(from: extent.memory.base, byteCount: extent.memory.size)
      }
      content.extents = [Extent(start: 0, memory: whole)]
      return whole
    }
  }

  /// Extends the file. The bytes up to `zeroTo` become zeros; those after it must be written by the caller.
  private static func extend(_ content: inout Content, to size: Int, zeroTo: Int) {
    while content.capacity < size {
      let wanted = max(content.capacity, extentSizeMinimum, size - content.capacity)
      let bounded = max(min(wanted, extentSizeMaximum), size - content.capacity)
      let rounded = (bounded + extentSizeMinimum - 1) / extentSizeMinimum * extentSizeMinimum
      content.extents.append(Extent(start: content.capacity, memory: Memory(size: rounded)))
    }
    let old = content.size
    content.size = size
    guard zeroTo > old else { return }
    unsafe visit(content, old, zeroTo - old) { memory, _, count in
      unsafe memory.initializeMemory(as: UInt8.self, repeating: 0, count: count)
    }
  }

  /// Calls `body` with each piece of the `count` bytes from `offset`: its memory, the number of bytes before it, and
  /// its own number of bytes.
  private static func visit(
    _ content: Content, _ offset: Int, _ count: Int, _ body: (UnsafeMutableRawPointer, Int, Int) -> Void
  ) {
    guard count > 0 else { return }
    var low = 0
    var high = content.extents.count - 1
    while low < high {
      let middle = (low + high) / 2
      if content.extents[middle].end > offset { high = middle } else { low = middle + 1 }
    }
    var done = 0
    while done < count {
      let extent = content.extents[low]
      let position = offset + done - extent.start
      let piece = min(count - done, extent.memory.size - position)
      unsafe body(extent.memory.base + position, done, piece)
      done += piece
      low += 1
    }
  }
}

/// An open file of a `MemoryFileSystem`.
final class MemoryFile: File {
  let path: String
  private let isWritable: Bool
  /// The content, or nil once the file is closed.
  private let content: Mutex<MemoryContent?>

  init(path: String, content: MemoryContent, isWritable: Bool) {
    self.path = path
    self.isWritable = isWritable
    self.content = Mutex(content)
  }

  func size() throws(EngineError) -> UInt64 { UInt64(try open("size").size) }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    let content = try open("read")
    return unsafe content.read(into: buffer, at: try checked(offset, buffer.count))
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    let content = try open("write", forWriting: true)
    let start = try checked(offset, bytes.count)
    guard unsafe content.write(bytes, at: start) else { throw full(offset) }
  }

  func truncate(to size: UInt64) throws(EngineError) {
    let content = try open("truncate", forWriting: true)
    guard content.truncate(to: try checked(size, 0)) else { throw full(size) }
  }

  func sync() throws(EngineError) { _ = try open("sync") }

  func startWriteback(offset: UInt64, size: UInt64) {}

  func dropCachedPages(offset: UInt64, size: UInt64) {}

  func map(size: Int) throws(EngineError) -> MappedFile {
    let content = try open("map", forWriting: true)
    let present = content.size
    guard size > 0, size <= present else {
      throw EngineError(.invalidArgument, "file has \(present) bytes; \(size) were to be mapped", file: path)
    }
    guard let memory = content.memory(size: size) else {
      throw EngineError(
        .invalidArgument, "map a file that grew while it is mapped: end the shorter mapping first", file: path)
    }
    return unsafe MappedFile(base: memory.base, size: size) { _, _ in withExtendedLifetime(memory) {} }
  }

  func close() { content.withLock { $0 = nil } }

  private func open(_ call: String, forWriting: Bool = false) throws(EngineError) -> MemoryContent {
    guard let content = content.withLock({ $0 }) else {
      throw EngineError(.inputOutput, "\(call) on a closed file", file: path)
    }
    guard isWritable || !forWriting else {
      throw EngineError(.inputOutput, "\(call) on a file that was opened for reading", file: path)
    }
    return content
  }

  private func checked(_ offset: UInt64, _ count: Int) throws(EngineError) -> Int {
    guard let start = Int(exactly: offset), start <= Int.max / 2 - count else {
      throw EngineError(.invalidArgument, "file offset is out of range", file: path, offset: offset)
    }
    return start
  }

  private func full(_ offset: UInt64) -> EngineError {
    EngineError(.noSpace, "the file system in memory is full", file: path, offset: offset)
  }
}
