/// One part of the values of an index: a field of the instance.
struct IndexField<Instance>: Sendable {
  /// The field, whatever its order.
  let path: FieldPath
  let isDescending: Bool
  let keyType: KeyType
  /// Nil for the elements of a field, each of which is a value.
  let encoder: FieldEncoder?
  /// What the index keeps of the field; nil: all of it.
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

  /// The elements of a field, each of which is a value.
  init(elementsOf path: FieldPath, _ keyType: KeyType) {
    self.path = path
    isDescending = false
    self.keyType = keyType
    encoder = nil
  }
}
