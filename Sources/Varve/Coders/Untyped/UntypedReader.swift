/// Reads a row without the type of its objects.
struct UntypedReader: ~Copyable {
  private let source: ByteSource
  private let shapes: ShapeLookup
  private var offset = 0

  init(_ source: ByteSource, _ shapes: ShapeCache) {
    self.source = source
    self.shapes = ShapeLookup(shapes)
  }

  /// Returns the value of the whole row. Throws `.corruption` if the bytes are damaged.
  consuming func value(shape: UInt32) throws -> UntypedValue {
    do throws(ReadFailure) {
      let value = shape == 0 ? try self.value(depth: 1) : try record(shape, depth: 1)
      guard let value, offset == source.count else { throw .damaged }
      return value
    } catch .other(let error) {
      throw error
    } catch {
      throw DatabaseError(.corruption, "the row does not match its shape")
    }
  }

  /// Returns the next value, or nil if it is absent.
  private mutating func value(depth: Int) throws(ReadFailure) -> UntypedValue? {
    guard depth <= CoderLimits.depth + 1 else { throw .damaged }
    let tag = try source.byte(offset)
    switch tag {
    case ..<ValueTag.shortString, ValueTag.mediumInteger..<ValueTag.shortArray, ValueTag.signed..<ValueTag.unsigned128:
      return .integer(try source.integer(&offset, as: Int128.self))
    case ValueTag.unsigned128: return .unsigned(try source.integer(&offset, as: UInt128.self))
    case ValueTag.shortString..<ValueTag.mediumInteger, ValueTag.string: return .string(try source.string(&offset))
    case ValueTag.no, ValueTag.yes: return .bool(try source.bool(&offset))
    case ValueTag.float: return .float(try source.float(&offset))
    case ValueTag.double, ValueTag.shortDouble: return .double(try source.double(&offset))
    case ValueTag.bytes: return .bytes(try source.bytes(&offset))
    case ValueTag.uuid: return .uuid(try source.string(&offset))
    case ValueTag.date: return .date(try source.double(&offset))
    case ValueTag.url: return .url(try source.string(&offset))
    default: break
    }
    offset += 1
    switch tag {
    case ValueTag.absent: return nil
    case ValueTag.null: return .null
    case ValueTag.decimal: return .decimal(try source.decimalText(&offset))
    case ValueTag.shortArray..<ValueTag.signed: return try array(Int(tag & 0x0f), depth)
    case ValueTag.array: return try array(try source.count(&offset, sizeMinimum: 1), depth)
    case ValueTag.uniformArray: return try uniformArray(depth)
    case ValueTag.record: return try record(try source.shapeNumber(&offset), depth: depth)
    case ValueTag.map: return try map(depth)
    default: throw .damaged
    }
  }

  private mutating func element(_ depth: Int) throws(ReadFailure) -> UntypedValue {
    guard let value = try value(depth: depth + 1) else { throw .damaged }
    return value
  }

  private mutating func array(_ count: Int, _ depth: Int) throws(ReadFailure) -> UntypedValue {
    var values: [UntypedValue] = []
    for _ in 0..<count { values.append(try element(depth)) }
    return .array(values)
  }

  private mutating func uniformArray(_ depth: Int) throws(ReadFailure) -> UntypedValue {
    let count = try source.count(&offset, sizeMinimum: 1)
    let shape = try source.shapeNumber(&offset)
    var values: [UntypedValue] = []
    for _ in 0..<count { values.append(try record(shape, depth: depth + 1)) }
    return .array(values)
  }

  private mutating func record(_ shape: UInt32, depth: Int) throws(ReadFailure) -> UntypedValue {
    guard depth <= CoderLimits.depth + 1 else { throw .damaged }
    let names = try shapes.shape(shape).fields
    guard names.count <= source.count - offset else { throw .damaged }
    var fields: [UntypedValue.Member] = []
    for name in names {
      if let value = try value(depth: depth + 1) { fields.append(.init(name, value)) }
    }
    return .record(fields)
  }

  private mutating func map(_ depth: Int) throws(ReadFailure) -> UntypedValue {
    let count = try source.count(&offset, sizeMinimum: 2)
    var fields: [UntypedValue.Member] = []
    for _ in 0..<count {
      let name = try source.string(&offset)
      fields.append(.init(name, try element(depth)))
    }
    return .record(fields)
  }
}
