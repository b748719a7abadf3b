/// Where an instance is in memory, for as long as the call lasts that it is passed to.
///
/// # Safety
/// A caller that uses it knows the type of the instance: an index is asked for instances of its format's type alone.
@safe
struct InstanceAddress {
  private let pointer: UnsafeRawPointer

  init(_ pointer: UnsafeRawPointer) { unsafe self.pointer = pointer }

  /// The instance.
  @inline(__always)
  func instance<Instance>(as type: Instance.Type) -> Instance {
    unsafe pointer.assumingMemoryBound(to: type).pointee
  }

  /// The field that is stored so many bytes from the beginning of the instance, as `MemoryLayout.offset` says.
  @inline(__always)
  func field<Value>(at offset: Int, as type: Value.Type) -> Value {
    unsafe pointer.advanced(by: offset).assumingMemoryBound(to: type).pointee
  }
}
