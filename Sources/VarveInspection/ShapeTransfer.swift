internal import Varve

/// Replaces the shape numbers inside a value of the binary coder.
///
/// The value's bytes are copied, except for the varints after the tags `d1` and `d2` of `ValueTag`.
///
/// The bytes are not trusted: an invalid value throws `.corruption`.
struct ShapeTransfer {
  /// Returns the number of fields in records of a shape, given the shape's number in the bytes.
  let fieldCount: (UInt32) throws -> Int
  /// Returns the number that a shape has in the target, given its number in the bytes.
  let number: (UInt32) throws -> UInt32

  /// Returns the bytes of a value with the replaced numbers, or those of a record's fields if `fields` is their count.
  func run(_ bytes: [UInt8], fields: Int?) throws -> [UInt8] {
    try unsafe bytes.withUnsafeBytes { raw in
      do throws(ReadFailure) {
        return try unsafe run(ByteSource(raw), bytes, valueCount: fields ?? 1)
      } catch .other(let error) {
        throw error
      } catch {
        throw DatabaseError(.corruption, "the row does not match its shape")
      }
    }
  }

  /// Replaces the numbers without recursion: it counts the values still to come, and checks the count against the
  /// remaining bytes.
  private func run(_ source: ByteSource, _ bytes: [UInt8], valueCount: Int) throws(ReadFailure) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(bytes.count + 16)
    var copied = 0
    var offset = 0
    var pending = valueCount
    while pending > 0 {
      guard pending <= source.count - offset else { throw .damaged }
      pending -= 1
      let tag = try source.byte(offset)
      guard tag == ValueTag.record || tag == ValueTag.uniformArray else {
        pending += try pass(source, &offset)
        continue
      }
      offset += 1
      var count = 1
      if tag == ValueTag.uniformArray { count = try source.count(&offset, sizeMinimum: 1) }
      output += bytes[copied..<offset]
      let shape = try source.shapeNumber(&offset)
      copied = offset
      do {
        // There are at most 2³¹ records of at most 2¹⁰ fields, so this can't overflow.
        pending += count * (try fieldCount(shape))
        Varint.append(UInt64(try number(shape)), to: &output)
      } catch {
        throw .other(error)
      }
    }
    guard offset == source.count else { throw .damaged }
    return output + bytes[copied...]
  }

  /// Skips a value that names no shape, but not the values inside it, and returns their count.
  private func pass(_ source: ByteSource, _ offset: inout Int) throws(ReadFailure) -> Int {
    let tag = try source.next(&offset)
    switch tag {
    case ..<ValueTag.shortString, ValueTag.negativeInteger..<ValueTag.shortArray: break
    case ..<ValueTag.mediumInteger: try source.pass(&offset, Int(tag & 0x3f))
    case ..<ValueTag.negativeInteger: try source.pass(&offset, 1)
    case ..<ValueTag.signed: return Int(tag & 0x0f)
    case ..<ValueTag.unsigned64: try source.pass(&offset, Int(tag & 0x07) + 1)
    case ValueTag.absent, ValueTag.null, ValueTag.no, ValueTag.yes: break
    case ValueTag.float, ValueTag.shortDouble: try source.pass(&offset, 4)
    case ValueTag.double, ValueTag.date, ValueTag.unsigned64: try source.pass(&offset, 8)
    case ValueTag.uuid, ValueTag.signed128, ValueTag.unsigned128: try source.pass(&offset, 16)
    case ValueTag.string, ValueTag.bytes, ValueTag.url, ValueTag.decimal:
      try source.pass(&offset, try source.count(&offset, sizeMinimum: 1))
    case ValueTag.array: return try source.count(&offset, sizeMinimum: 1)
    case ValueTag.map: return 2 * (try source.count(&offset, sizeMinimum: 2))
    default: throw .damaged
    }
    return 0
  }
}
