/// A family's merge operator as the engine calls it.
struct MergeFunction: Sendable {
  let mergeOperator: any MergeOperator

  /// The value of a key. Nil where the operator makes no sense of the operands, which come back either way.
  func merge(
    _ key: ByteView, existing: ByteView?, _ operands: inout OperandStack, into value: inout MergeValue
  ) -> Bool {
    value.removeAll()
    let input = MergeInput(key: key, existing: existing, operands: operands.take())
    let isDone = mergeOperator.merge(input, into: &value)
    operands = input.takeOperands()
    return isDone && value.byteCount <= Limits.valueSizeMaximum
  }

  /// All operands as one. False where they can't be combined.
  func combine(_ key: ByteView, _ operands: borrowing OperandStack, into operand: inout MergeValue) -> Bool {
    operands.combine(key, by: mergeOperator, into: &operand)
  }

  /// Why a key can't be read.
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
  /// The operands; an empty stack remains.
  fileprivate mutating func take() -> OperandStack {
    var other = OperandStack()
    swap(&self, &other)
    return other
  }
}
