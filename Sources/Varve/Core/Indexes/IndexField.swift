/// One part of the values of an index: a field of the instance.
struct IndexField<Instance>: Sendable {
  /// The field, whatever its order.
  let path: FieldPath
  let isDescending: Bool
  let keyType: KeyType
  private let encode: @Sendable (Instance, inout KeyEncoder) throws -> Void

  init<Value: KeyCodable>(_ path: any KeyPath<Instance, Value> & Sendable) {
    self.init(FieldPath(path: path, components: [path]), isDescending: false, path)
  }

  init<Value: KeyCodable>(_ field: Field<Instance, Value>) {
    self.init(field.ascending ?? field.fieldPath, isDescending: field.ascending != nil, field.path)
  }

  private init<Value: KeyCodable>(_ path: FieldPath, isDescending: Bool, _ valuePath: KeyPath<Instance, Value>) {
    self.path = path
    self.isDescending = isDescending
    keyType = Value.keyType
    let read = FieldReader(valuePath)
    encode = { instance, encoder in try read(instance).encodeKey(into: &encoder) }
  }

  /// The elements of a field, each of which is a value.
  init(elementsOf path: FieldPath, _ keyType: KeyType) {
    self.path = path
    isDescending = false
    self.keyType = keyType
    encode = { _, _ in }
  }

  /// Appends the part of an instance's value.
  @inline(__always)
  func append(_ instance: Instance, _ keys: inout IndexKeys) throws {
    try keys.appendPart { try encode(instance, &$0) }
  }
}

/// Reads a field of instances.
struct FieldReader<Instance, Value>: @unchecked Sendable {
  // Unchecked: see `FieldPath`.
  private let path: KeyPath<Instance, Value>
  /// Where the field is in an instance, where it is stored there.
  private let offset: Int?

  init(_ path: KeyPath<Instance, Value>) {
    self.path = path
    offset = MemoryLayout<Instance>.offset(of: path)
  }

  /// The field. Not by the path where it is stored in the instance: that costs some 200 instructions a call.
  @inline(__always)
  func callAsFunction(_ instance: Instance) -> Value {
    guard let offset else { return instance[keyPath: path] }
    return unsafe withUnsafePointer(to: instance) { pointer in
      // Safety: `MemoryLayout.offset` says that a value of this type is stored there.
      unsafe UnsafeRawPointer(pointer).advanced(by: offset).assumingMemoryBound(to: Value.self).pointee
    }
  }
}
