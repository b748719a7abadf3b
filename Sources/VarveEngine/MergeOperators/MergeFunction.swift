/// The merge operator of a family, in the form in which the engine calls it.
struct MergeFunction: Sendable {
  let mergeOperator: any MergeOperator
  /// The account to which many operands, and large results, are charged.
  var account: MemoryAccount?

  /// Computes the value of a key. Returns false if the operator rejects the operands. The operands are returned to
  /// the stack either way.
  func merge(
    _ key: ByteView, existing: ByteView?, _ operands: inout OperandStack, into value: inout MergeValue
  ) -> Bool {
    value.reset()
    let input = MergeInput(key: key, existing: existing, operands: operands.take())
    let isDone = mergeOperator.merge(input, into: &value)
    value.chargeIfLarge(to: account)
    operands = input.takeOperands()
    return isDone && value.byteCount <= Limits.valueSizeMaximum
  }

  /// Combines all operands into one. Returns false if they can't be combined. The operands are returned to the stack
  /// either way.
  func combine(_ key: ByteView, _ operands: inout OperandStack, into operand: inout MergeValue) -> Bool {
    operand.reset()
    let input = MergeInput(key: key, existing: nil, operands: operands.take())
    let isDone = mergeOperator.combineAll(input, into: &operand)
    operand.chargeIfLarge(to: account)
    operands = input.takeOperands()
    return isDone && operand.byteCount <= Limits.valueSizeMaximum
  }

  /// Returns the error that explains why a key can't be read.
  static func failure(
    _ function: MergeFunction?, _ key: ByteView, _ operands: borrowing OperandStack
  ) -> EngineError {
    guard let function else {
      return EngineError(
        .mergeFailed,
        "key \(key.printable) has merge operands, and its column family's operator is not known: pass it in EngineOptions.mergeOperators"
      )
    }
    return EngineError(
      .mergeFailed,
      "merge operator \"\(function.mergeOperator.name)\" can't merge the operands of key \(key.printable) with the stored value: "
        + "one of the \(operands.count) operands (\(operands.byteCount) bytes in all), or the value, does not have the form that it takes, "
        + "or the result has more than \(Limits.valueSizeMaximum) bytes"
    )
  }
}

extension OperandStack {
  /// Returns the operands and leaves an empty stack.
  fileprivate mutating func take() -> OperandStack {
    var other = OperandStack()
    swap(&self, &other)
    return other
  }
}
