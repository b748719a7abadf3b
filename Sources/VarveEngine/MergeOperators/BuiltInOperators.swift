/// Adds 64-bit integers, little-endian, in two's complement. A sum that overflows 64 bits wraps around.
///
/// A key without a value counts from zero. An operand or value whose size is not eight bytes is invalid.
public struct CounterOperator: AssociativeMergeOperator {
  /// Makes the operator.
  public init() {}

  /// The name that is stored with the families that use the operator.
  public let name = "varve.counter"

  /// Appends the operand to `value`. Returns false if the operand does not have eight bytes.
  public func begin(_ key: RawSpan, operand: RawSpan, into value: inout MergeValue) -> Bool {
    guard operand.byteCount == 8 else { return false }
    value.append(operand)
    return true
  }

  /// Appends the sum to `value`. Returns false if either number does not have eight bytes.
  public func fold(_ key: RawSpan, older: RawSpan, newer: RawSpan, into value: inout MergeValue) -> Bool {
    guard let left = Self.integer(older), let right = Self.integer(newer) else { return false }
    value.append(littleEndian: left &+ right)
    return true
  }

  /// Returns the operand or value that represents a number.
  public static func bytes(_ number: Int64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * Int64($0))) }
  }

  /// Returns the number that a value represents, or nil if the value does not have eight bytes.
  public static func number(_ bytes: [UInt8]) -> Int64? { unsafe integer(bytes.span.bytes) }

  private static func integer(_ bytes: RawSpan) -> Int64? {
    guard bytes.byteCount == 8 else { return nil }
    return bytes.withByteView { $0.load(0, as: Int64.self) }
  }
}

/// Appends operands to the value, one after the other, without separators.
public struct AppendOperator: AssociativeMergeOperator {
  /// Makes the operator.
  public init() {}

  /// The name that is stored with the families that use the operator.
  public let name = "varve.append"

  /// Concatenates both operands, the older one first.
  public func fold(_ key: RawSpan, older: RawSpan, newer: RawSpan, into value: inout MergeValue) -> Bool {
    value.append(older)
    value.append(newer)
    return true
  }

  /// Concatenates the existing value and all operands. Returns false if the value would be too large.
  public func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
    guard input.existing.byteCount + input.operandByteCount <= Limits.valueSizeMaximum else { return false }
    value.reserve(input.existing.byteCount + input.operandByteCount)
    value.append(input.existing)
    return combineAll(input, into: &value)
  }

  /// Concatenates all operands. Returns false if the operand would be too large.
  public func combineAll(_ input: borrowing MergeInput, into operand: inout MergeValue) -> Bool {
    guard input.operandByteCount <= Limits.valueSizeMaximum else { return false }
    operand.reserve(input.operandByteCount)
    for index in 0..<input.operandCount { operand.append(input.operand(index)) }
    return true
  }
}

/// Keeps the largest of value and operands, compared as unsigned bytes.
public struct MaximumOperator: AssociativeMergeOperator {
  /// Makes the operator.
  public init() {}

  /// The name that is stored with the families that use the operator.
  public let name = "varve.max"

  /// Appends the larger of the two to `value`, or the newer if they are equal.
  public func fold(_ key: RawSpan, older: RawSpan, newer: RawSpan, into value: inout MergeValue) -> Bool {
    let isNewer = older.withByteView { older in newer.withByteView { older.compare($0) <= 0 } }
    value.append(isNewer ? newer : older)
    return true
  }
}

/// The operators that every engine supports.
enum BuiltInOperators {
  static let all: [any MergeOperator] = [CounterOperator(), AppendOperator(), MaximumOperator()]
}
