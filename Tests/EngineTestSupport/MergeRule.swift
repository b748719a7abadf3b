public import VarveEngine

/// The effect of a merge operand on a value, defined once for the model and for the engine's operator.
public enum MergeRule: String, CaseIterable, Sendable {
  /// `varve.append`.
  case append = "varve.append"
  /// `varve.max`.
  case max = "varve.max"
  /// An operator that does not combine operands, and whose result depends on each of them and on their order.
  case chain = "test.chain"

  /// Returns the value after an operand is applied.
  public func apply(_ value: [UInt8]?, _ operand: [UInt8]) -> [UInt8] {
    switch self {
    case .append: return (value ?? []) + operand
    case .max:
      guard let value else { return operand }
      return operand.lexicographicallyPrecedes(value) ? value : operand
    case .chain: return ChainOperator.step(value, operand)
    }
  }
}

/// A merge operator that keeps a running hash of all operands, so that a value reveals a lost, doubled or moved
/// operand.
public struct ChainOperator: MergeOperator {
  /// The name that is stored with the families that use the operator.
  public let name = MergeRule.chain.rawValue

  /// Creates the operator.
  public init() {}

  static func step(_ value: [UInt8]?, _ operand: [UInt8]) -> [UInt8] {
    var hash: UInt64 = value == nil ? 0x1234_5678 : 0xcbf2_9ce4_8422_2325
    for byte in (value ?? []) + [0xfe] + operand { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return (0..<8).map { UInt8(truncatingIfNeeded: hash >> (8 * UInt64($0))) }
  }

  /// Applies each operand by itself.
  public func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
    var current = input.hasExisting ? input.existing.copied : nil
    for index in 0..<input.operandCount { current = Self.step(current, input.operand(index).copied) }
    value.append(current ?? [])
    return true
  }
}

extension RawSpan {
  /// The bytes as an array.
  public var copied: [UInt8] { unsafe withUnsafeBytes { unsafe [UInt8]($0) } }
}
