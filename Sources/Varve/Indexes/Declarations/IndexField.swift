/// A field of the instance that is a part of an index's values.
struct IndexField<Instance>: Sendable {
  /// The path of the field, regardless of its order.
  let path: FieldPath
  let isDescending: Bool
  let keyType: KeyType
  /// The encoder of the field, or `nil` if each element of the field is a value.
  let encoder: FieldEncoder?
  /// The prefix of the field that the index keeps, or `nil` if it keeps the whole field.
  var prefix: KeyPrefix?

  init<Value: KeyCodable>(_ path: any KeyPath<Instance, Value> & Sendable) {
    self.init(FieldPath(path: path), isDescending: false, path)
  }

  init<Value: KeyCodable>(_ field: Field<Instance, Value>) {
    self.init(field.ascending ?? field.fieldPath, isDescending: field.ascending != nil, field.path)
  }

  private init<Value: KeyCodable>(_ path: FieldPath, isDescending: Bool, _ valuePath: KeyPath<Instance, Value>) {
    self.path = path
    self.isDescending = isDescending
    keyType = Value.keyType
    encoder = FieldEncoder.of(valuePath)
  }

  /// Creates a field from the elements of a field, each of which is a value.
  init(elementsOf path: FieldPath, _ keyType: KeyType) {
    self.path = path
    isDescending = false
    self.keyType = keyType
    encoder = nil
  }
}
