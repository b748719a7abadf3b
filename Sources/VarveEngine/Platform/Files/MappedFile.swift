internal import CVarve

/// The mapped bytes of a file, shared with every other mapping and reader of the file.
///
/// Stores go through `store`, which is a copy and, in the simulators, a point at which the power can fail. Stored
/// bytes survive the death of the process at once, and a power loss after `File.sync`.
///
/// # Safety
/// The object owns the mapping: `base` is valid while the object lives. `store` checks its bounds.
///
/// # Concurrency
/// One thread stores at a time; readers of bytes that are not being stored need no lock.
@safe
public final class MappedFile: @unchecked Sendable {
  // Sendable: the pointer does not change, and the log's protocol determines which thread may store at what time.

  /// An object through which a file system intercepts stores to a mapping.
  public protocol Observer: AnyObject, Sendable {
    /// Called instead of the plain copy. The observer copies all of the bytes, a part, or none.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int, in mapping: MappedFile)
  }

  /// The address of the first byte.
  public let base: UnsafeMutableRawPointer
  /// The number of mapped bytes.
  public let size: Int
  private let observer: (any Observer)?
  /// Whether the bytes are in the system's page cache. Memory of the process alone would lose them with its pages.
  private let isOfFile: Bool
  private let unmap: @Sendable (UnsafeMutableRawPointer, Int) -> Void

  /// Wraps memory, which `unmap` releases at the end. `isOfFile` states that it consists of pages of a file in the
  /// page cache.
  public init(
    base: UnsafeMutableRawPointer, size: Int, observer: (any Observer)? = nil, isOfFile: Bool = false,
    unmap: @escaping @Sendable (UnsafeMutableRawPointer, Int) -> Void
  ) {
    unsafe self.base = base
    self.size = size
    self.observer = observer
    self.isOfFile = isOfFile
    unsafe self.unmap = unmap
  }

  deinit { unsafe unmap(base, size) }

  /// Copies `bytes` to `offset`.
  @inline(__always)
  func store(at offset: Int, bytes: ByteView) {
    precondition(offset >= 0 && bytes.count <= size &- offset, "store past the end of the mapping")
    if let observer {
      unsafe observer.store(bytes.buffer, at: offset, in: self)
    } else {
      unsafe (base + offset).copyMemory(from: bytes.base, byteCount: bytes.count)
    }
  }

  /// Whether stores must go through `store`. False in real use, where the log encodes records in place instead of
  /// copying them twice.
  @inline(__always)
  var isObserved: Bool { observer != nil }

  /// Whether the mapping shows what `File.write` writes, so that the bytes need not be stored through it.
  var showsWrites: Bool { isOfFile && !isObserved }

  /// Returns the `count` bytes from `offset`.
  @inline(__always)
  func view(_ offset: Int, count: Int) -> ByteView {
    precondition(offset >= 0 && count >= 0 && count <= size &- offset, "view past the end of the mapping")
    return unsafe ByteView(base: UnsafeRawPointer(base) + offset, count: count)
  }
}

extension MappedFile {
  /// Makes all pages present and writable, so that later stores do not fault. The call is a hint: if it fails, they
  /// do fault.
  func populate() {
    guard !isObserved else { return }
    _ = unsafe cvarve_populate_for_writing(base, size)
  }

  /// Removes the whole pages of a range from the address space, for a sync of many pages that are not stored to
  /// again.
  ///
  /// The sync has to write-protect each mapped page, which interrupts every processor that runs the program; pages
  /// that are not mapped cost nothing there. The bytes stay in the page cache: the next access maps the page again.
  func unmapPages(_ range: Range<Int>) {
    guard isOfFile, !isObserved else { return }
    let lower = (range.lowerBound + Self.pageSize - 1) / Self.pageSize * Self.pageSize
    let upper = min(range.upperBound, size) / Self.pageSize * Self.pageSize
    guard lower >= 0, upper - lower >= Self.unmapMinimum else { return }
    unsafe cvarve_unmap_pages(base + lower, upper - lower)
  }

  /// An upper bound of the page size of any supported system.
  private static let pageSize = 1 << 16
  private static let unmapMinimum = 1 << 16

  /// Reads all pages into memory, so that a store does not wait for the device.
  ///
  /// Throws if the device can't read them, in which case a store would end the process. Does nothing on systems
  /// without such a call.
  func load(path: String) throws(EngineError) {
    guard !isObserved else { return }
    let result = unsafe cvarve_populate_for_reading(base, size)
    // An old kernel does not support the call.
    guard result != 0, !SystemError.isUnknownCall(-result) else { return }
    throw SystemError.error(-result, call: "madvise", path: path)
  }
}
