public import VarveEngine

/// What an operand does to a value, said once for the model and once, as an operator, for the engine.
public enum MergeRule: String, CaseIterable, Sendable {
  /// `varve.append`.
  case append = "varve.append"
  /// `varve.max`.
  case max = "varve.max"
  /// An operator that combines nothing, and for which the order of operands and each of them counts.
  case chain = "test.chain"

  /// The value after an operand.
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

/// Keeps a running hash of all operands: a value shows whether one was left out, doubled or moved.
public struct ChainOperator: MergeOperator {
  /// Stored with the families that have it.
  public let name = MergeRule.chain.rawValue

  /// Makes the operator.
  public init() {}

  static func step(_ value: [UInt8]?, _ operand: [UInt8]) -> [UInt8] {
    var hash: UInt64 = value == nil ? 0x1234_5678 : 0xcbf2_9ce4_8422_2325
    for byte in (value ?? []) + [0xfe] + operand { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return (0..<8).map { UInt8(truncatingIfNeeded: hash >> (8 * UInt64($0))) }
  }

  /// Folds each operand on its own.
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
