/// The merge operator of a family, in the form in which the engine calls it.
struct MergeFunction: Sendable {
  let mergeOperator: any MergeOperator

  /// Computes the value of a key. Returns false if the operator rejects the operands. The operands are returned to
  /// the stack either way.
  func merge(
    _ key: ByteView, existing: ByteView?, _ operands: inout OperandStack, into value: inout MergeValue
  ) -> Bool {
    value.removeAll()
    let input = MergeInput(key: key, existing: existing, operands: operands.take())
    let isDone = mergeOperator.merge(input, into: &value)
    operands = input.takeOperands()
    return isDone && value.byteCount <= Limits.valueSizeMaximum
  }

  /// Combines all operands into one. Returns false if they can't be combined.
  func combine(_ key: ByteView, _ operands: borrowing OperandStack, into operand: inout MergeValue) -> Bool {
    operands.combine(key, by: mergeOperator, into: &operand)
  }

  /// Returns the error that explains why a key can't be read.
  static func failure(_ function: MergeFunction?, _ key: ByteView) -> EngineError {
    guard let function else {
      return EngineError(
        .mergeFailed,
        "key \(key.printable) has merge operands, and its column family's operator is not known: pass it in EngineOptions.mergeOperators"
      )
    }
    return EngineError(
      .mergeFailed, "merge operator \"\(function.mergeOperator.name)\" refused the operands of key \(key.printable)")
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
