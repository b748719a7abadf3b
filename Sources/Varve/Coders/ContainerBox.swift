/// Identifies the frame of a keyed container. It is stored outside the container's box, so that the box can be reused
/// for another frame.
struct ContainerCell: BitwiseCopyable {
  var slot: Int
  var id: UInt32
  let table: KeyTablePointer
}

/// Owns a cell, and retains the core that the container works on.
///
/// # Safety
/// `cell` is valid as long as this object exists.
@safe
final class CellOwner<Core: AnyObject> {
  let core: Core
  let cell: UnsafeMutablePointer<ContainerCell>

  init(_ core: Core, _ cell: ContainerCell) {
    self.core = core
    unsafe self.cell = .allocate(capacity: 1)
    unsafe self.cell.initialize(to: cell)
  }

  deinit { unsafe cell.deallocate() }
}

/// The box of a keyed container, in use or kept for its next use.
///
/// # Safety
/// `box` is the single word of a `KeyedEncodingContainer<Key>` or `KeyedDecodingContainer<Key>`, and it retains the
/// owner of `cell`. A box that is referenced only from here is not in use.
@safe
struct ContainerBox {
  /// The assumed class of a box, for counting its references: querying an `AnyObject` for them would retain it first.
  private final class Unknown {}

  private var box: Unknown
  private let cell: UnsafeMutablePointer<ContainerCell>

  /// Keeps the box of a container, or returns nil if a container is not a single reference. Both types have one stored
  /// property in all versions of the standard library so far.
  static func make<Container, Core>(_ container: Container, _ owner: CellOwner<Core>) -> ContainerBox? {
    guard MemoryLayout<Container>.size == MemoryLayout<AnyObject>.size else { return nil }
    let box = unsafe withUnsafeBytes(of: container) { unsafe $0.load(as: Unknown.self) }
    return unsafe ContainerBox(box: box, cell: owner.cell)
  }

  /// Returns the container, set to another frame, or nil if the box is in use. It is not cast to its type, because the
  /// dynamic cast is expensive.
  @inline(__always)
  mutating func use(_ slot: Int, _ id: UInt32) -> AnyObject? {
    guard isKnownUniquelyReferenced(&box) else { return nil }
    unsafe cell.pointee.slot = slot
    unsafe cell.pointee.id = id
    return box
  }
}
