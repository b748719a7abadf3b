/// Which frame a keyed container is of. It stands beside the box of the container, so that the box can be used again
/// for another frame.
struct ContainerCell: BitwiseCopyable {
  var slot: Int
  var id: UInt32
  let table: KeyTablePointer
}

/// Owns a cell, and holds the core that the container works on.
///
/// # Safety
/// `cell` lives as long as this object.
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

/// The box of a keyed container that waits for its next use, or is in use.
///
/// # Safety
/// `box` is the one word of a `KeyedEncodingContainer<Key>` or `KeyedDecodingContainer<Key>`, and it holds the owner of
/// `cell`. A box that is referenced from here alone is in no one's hands.
@safe
struct ContainerBox {
  /// What a box is taken for, to count its references: asking an `AnyObject` for them would retain it before.
  private final class Unknown {}

  private var box: Unknown
  private let cell: UnsafeMutablePointer<ContainerCell>

  /// Keeps the box of a container; nil where a container is not one reference. Both types have one stored property
  /// in all versions of the standard library so far.
  static func make<Container, Core>(_ container: Container, _ owner: CellOwner<Core>) -> ContainerBox? {
    guard MemoryLayout<Container>.size == MemoryLayout<AnyObject>.size else { return nil }
    return unsafe ContainerBox(box: unsafeBitCast(container, to: Unknown.self), cell: owner.cell)
  }

  /// The container, for another frame; nil where someone holds it. Not yet as its type: to know that costs.
  @inline(__always)
  mutating func use(_ slot: Int, _ id: UInt32) -> AnyObject? {
    guard isKnownUniquelyReferenced(&box) else { return nil }
    unsafe cell.pointee.slot = slot
    unsafe cell.pointee.id = id
    return box
  }
}
