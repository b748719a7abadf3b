extension ByteSource {
  /// Moves the offset over some values, including all values nested in them.
  ///
  /// This is not recursive: the values that are still to come are counted, and the count is checked against the
  /// remaining bytes.
  func skip(_ offset: inout Int, count: Int, _ shapes: borrowing ShapeLookup) throws(ReadFailure) {
    var pending = count
    while pending > 0 {
      guard pending <= self.count &- offset else { throw .damaged }
      pending &-= 1
      let tag = try next(&offset)
      switch tag {
      case ..<ValueTag.shortString: break
      case ..<ValueTag.mediumInteger: try pass(&offset, Int(tag & 0x3f))
      case ..<ValueTag.negativeInteger: try pass(&offset, 1)
      case ..<ValueTag.shortArray: break
      case ..<ValueTag.signed: pending &+= Int(tag & 0x0f)
      case ..<ValueTag.unsigned64: try pass(&offset, Int(tag & 0x07) &+ 1)
      default: pending &+= try skipLong(&offset, tag, shapes)
      }
    }
  }

  /// Skips the rest of a value after its tag, except for the values within it, whose number is returned.
  private func skipLong(
    _ offset: inout Int, _ tag: UInt8, _ shapes: borrowing ShapeLookup
  ) throws(ReadFailure) -> Int {
    switch tag {
    case ValueTag.absent, ValueTag.null, ValueTag.no, ValueTag.yes: break
    case ValueTag.float, ValueTag.shortDouble: try pass(&offset, 4)
    case ValueTag.double, ValueTag.date, ValueTag.unsigned64: try pass(&offset, 8)
    case ValueTag.uuid, ValueTag.signed128, ValueTag.unsigned128: try pass(&offset, 16)
    case ValueTag.string, ValueTag.bytes, ValueTag.url, ValueTag.decimal:
      try pass(&offset, try self.count(&offset, sizeMinimum: 1))
    case ValueTag.array: return try self.count(&offset, sizeMinimum: 1)
    case ValueTag.map: return 2 * (try self.count(&offset, sizeMinimum: 2))
    case ValueTag.record: return try shapes.shape(try shapeNumber(&offset)).fieldCount
    case ValueTag.uniformArray:
      let count = try self.count(&offset, sizeMinimum: 1)
      // At most 2³¹ records of at most 2¹⁰ fields cannot overflow.
      return count * (try shapes.shape(try shapeNumber(&offset)).fieldCount)
    default: throw .damaged
    }
    return 0
  }
}
