internal import CVarve

/// A file's bytes in memory, shared with every other mapping and reader of the file.
///
/// Stores go through `store`, which is a copy and, in the simulators, a point at which the power can
/// go. They survive the death of the process at once, and a loss of power after `File.sync`.
///
/// # Safety
/// The owner of the mapping: `base` is valid while the object lives. `store` checks its bounds.
///
/// # Concurrency
/// One thread stores at a time; readers of bytes that are not being stored need no lock.
@safe
public final class MappedFile: @unchecked Sendable {
  // Sendable: the pointer is stable for life, and who may store when is the log's protocol.

  /// What a file system does around a store and at the end of a mapping.
  public protocol Observer: AnyObject, Sendable {
    /// Called instead of the plain copy: does it, in part or not at all.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int, in mapping: MappedFile)
  }

  /// The first byte.
  public let base: UnsafeMutableRawPointer
  /// How many bytes are mapped.
  public let size: Int
  private let observer: (any Observer)?
  /// Whether the system has the bytes in its page cache: memory of the process alone would lose them with its pages.
  private let isOfFile: Bool
  private let unmap: @Sendable (UnsafeMutableRawPointer, Int) -> Void

  /// Wraps memory that `unmap` gives back at the end; `isOfFile`: pages of a file in the page cache, shared with it.
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

  /// Whether stores must go through `store`: false in real use, where the log encodes records in
  /// position instead of copying them twice.
  @inline(__always)
  var isObserved: Bool { observer != nil }

  /// The bytes from `offset`.
  @inline(__always)
  func view(_ offset: Int, count: Int) -> ByteView {
    precondition(offset >= 0 && count >= 0 && count <= size &- offset, "view past the end of the mapping")
    return unsafe ByteView(base: UnsafeRawPointer(base) + offset, count: count)
  }
}

extension MappedFile {
  /// Makes all pages present and writable, so that later stores do not fault. A hint: failure only
  /// means that they do.
  func populate() {
    guard !isObserved else { return }
    _ = unsafe cvarve_populate_for_writing(base, size)
  }

  /// Takes the whole pages of a range out of the address space, for a sync of many pages that are not stored to again. The sync has to
  /// write-protect each page that is mapped, which interrupts every processor that runs the program; pages that are not mapped cost
  /// nothing there. The bytes stay in the page cache: the next access maps the page again.
  func unmapPages(_ range: Range<Int>) {
    guard isOfFile, !isObserved else { return }
    let lower = (range.lowerBound + Self.pageSize - 1) / Self.pageSize * Self.pageSize
    let upper = min(range.upperBound, size) / Self.pageSize * Self.pageSize
    guard lower >= 0, upper - lower >= Self.unmapMinimum else { return }
    unsafe cvarve_unmap_pages(base + lower, upper - lower)
  }

  /// No smaller than those of any system that is supported.
  private static let pageSize = 1 << 16
  private static let unmapMinimum = 1 << 16

  /// Has all pages read into memory, so that a store does not wait for the device. Throws where the device can't
  /// read them: a store would end the process. Does nothing on systems that have no call for it.
  func load(path: String) throws(EngineError) {
    guard !isObserved else { return }
    let result = unsafe cvarve_populate_for_reading(base, size)
    // An old kernel does not know the call.
    guard result != 0, !SystemError.isUnknownCall(-result) else { return }
    throw SystemError.error(-result, call: "madvise", path: path)
  }
}
