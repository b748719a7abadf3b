/// Locates fields in stored rows. An instance is used by one thread at a time.
final class StoredReader {
  private let names: [[String]]
  private let shapes: ShapeLookup
  /// The positions of the fields in the rows of a shape, in ascending order; nil for a shape that does not have all of
  /// them.
  private var plans: [UInt32: [(position: Int, field: Int)]?] = [:]
  private var lastShape: UInt32 = 0
  private var lastPlan: [(position: Int, field: Int)]?
  /// The offset of each field in the current row, or a negative number if the field is nil.
  private(set) var offsets: [Int]
  /// The number of rows that have agreed with their decoded instances, as of the last query.
  var agreements = 0
  /// The number of rows that were left out without being decoded.
  var leftOut = 0
  private var encoder = KeyEncoder(capacity: 64)

  init(_ names: [[String]], _ coder: BinaryCoder) {
    self.names = names
    shapes = coder.makeShapeLookup()
    offsets = Array(repeating: -1, count: names.count)
  }

  /// Locates the fields of an object. Returns false if its shape does not have all of them, or a field is not in a
  /// record.
  func find(_ source: ByteSource, shape: UInt32) throws -> Bool {
    if shape != lastShape || lastPlan == nil {
      lastShape = shape
      lastPlan = try plan(shape)
    }
    guard let plan = lastPlan else { return false }
    var (offset, passed) = (0, 0)
    for (position, field) in plan {
      if position > passed { try source.skip(&offset, count: position - passed, shapes) }
      passed = position
      if names[field].count == 1 {
        offsets[field] = try source.isNil(offset) ? -1 : offset
      } else {
        guard let inner = try nested(source, offset, names[field][1...]) else { return false }
        offsets[field] = inner
      }
    }
    return true
  }

  private func plan(_ number: UInt32) throws -> [(position: Int, field: Int)]? {
    if let known = plans[number] { return known }
    guard number != 0 else { return nil }
    let shape = try shapes.shape(number)
    var plan: [(position: Int, field: Int)] = []
    for (field, path) in names.enumerated() {
      guard let position = shape.position(of: path[0]) else {
        plans[number] = .some(nil)
        return nil
      }
      plan.append((position, field))
    }
    plan.sort { $0.position < $1.position }
    plans[number] = plan
    return plan
  }

  /// Returns the offset of a field in nested records: negative if a value on the path is nil, and nil if a value is not
  /// a record with such a field.
  private func nested(_ source: ByteSource, _ start: Int, _ path: ArraySlice<String>) throws -> Int? {
    if try source.isNil(start) { return -1 }
    guard let name = path.first else { return start }
    var offset = start
    guard try source.next(&offset) == ValueTag.record else { return nil }
    let shape = try shapes.shape(try source.shapeNumber(&offset))
    guard let position = shape.position(of: name) else { return nil }
    try source.skip(&offset, count: position, shapes)
    return try nested(source, offset, path.dropFirst())
  }

  // MARK: - Values

  /// Calls `body` with the key of a located field. The key is valid only during the call.
  func withKey<Result>(
    _ field: Int, _ kind: StoredKind, _ source: ByteSource, _ body: ([UInt8]) throws -> Result
  ) throws -> Result {
    encoder.removeAll()
    var offset = offsets[field]
    if offset < 0 {
      guard kind.isOptional else { throw ReadFailure.null }
      encoder.append(null: ())
    } else {
      if kind.isOptional { encoder.append(some: ()) }
      try kind.append(source, &offset, &encoder)
    }
    return try body(encoder.bytes)
  }

  /// Returns whether `body` returns true for the key of an element of a list.
  func hasElement(_ field: Int, _ kind: StoredKind, _ source: ByteSource, _ body: ([UInt8]) -> Bool) throws -> Bool {
    var offset = offsets[field]
    guard offset >= 0 else { return false }
    let tag = try source.next(&offset)
    let count: Int
    switch tag {
    case ValueTag.shortArray..<ValueTag.signed: count = Int(tag & 0x0f)
    case ValueTag.array: count = try source.count(&offset, sizeMinimum: 1)
    default: throw ReadFailure.mismatch
    }
    for _ in 0..<count {
      encoder.removeAll()
      try kind.append(source, &offset, &encoder)
      if body(encoder.bytes) { return true }
    }
    return false
  }

  /// Returns the string of a located field, or nil if the field is nil.
  func text(_ field: Int, _ source: ByteSource) throws -> String? {
    var offset = offsets[field]
    return offset < 0 ? nil : try source.string(&offset)
  }
}

extension ByteSource {
  fileprivate func isNil(_ offset: Int) throws(ReadFailure) -> Bool {
    let tag = try byte(offset)
    return tag == ValueTag.absent || tag == ValueTag.null
  }
}

extension KeyEncoder {
  /// Appends the marker of an optional without a value.
  mutating func append(null: Void) { bytes.append(KeyTag.null) }
  /// Appends the marker of an optional whose value follows.
  mutating func append(some: Void) { bytes.append(KeyTag.some) }
}
