/// The address of an instance in memory, valid for the duration of the call that receives it.
///
/// # Safety
/// The user must know the type of the instance: an index receives only instances of its format's type.
@safe
struct InstanceAddress {
  private let pointer: UnsafeRawPointer

  init(_ pointer: UnsafeRawPointer) { unsafe self.pointer = pointer }

  /// Returns the instance.
  @inline(__always)
  func instance<Instance>(as type: Instance.Type) -> Instance {
    unsafe pointer.assumingMemoryBound(to: type).pointee
  }

  /// Returns the field that is stored at an offset in the instance, as `MemoryLayout.offset` returns it.
  @inline(__always)
  func field<Value>(at offset: Int, as type: Value.Type) -> Value {
    unsafe pointer.advanced(by: offset).assumingMemoryBound(to: type).pointee
  }
}
