/// Folds operands into the value of a key.
///
/// `merge` stores an operand without a read. The operator folds it when the key is read or when a compaction
/// processes it.
///
/// A family has at most one operator, which is set when the family is created. The name is stored with the family. Its
/// meaning must never change, and an engine that opens the database needs the operator of that name
/// (`EngineOptions.mergeOperators`; the operators of this module are always known).
///
/// An operator must be a pure function: the same operands always give the same value. It can be called from any thread,
/// including background threads, and from several threads at once.
///
/// ```swift
/// struct LongestWins: MergeOperator {
///   let name = "example.longest"
///   func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
///     var best = input.existing
///     for index in 0..<input.operandCount where input.operand(index).byteCount >= best.byteCount {
///       best = input.operand(index)
///     }
///     value.append(best)
///     return true
///   }
/// }
/// ```
public protocol MergeOperator: Sendable {
  /// The name that is stored with the family, of 1 to 255 bytes.
  var name: String { get }

  /// Appends the key's value to `value`, which is empty: the existing value, if any, with the operands folded in from
  /// the oldest to the newest.
  ///
  /// Returns false if the operands are invalid. A read of the key then throws `.mergeFailed`, and the operands stay
  /// as they are.
  func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool

  /// Appends to `operand`, which is empty, one operand with the effect of `older` followed by `newer`.
  ///
  /// Returns false if the two can't be combined; both are then kept. The default implementation returns false. An
  /// operator that combines keeps frequently merged keys small: a flush leaves one operand of each.
  func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool

  /// Appends to `operand`, which is empty, one operand with the effect of all operands of `input`, from the oldest to
  /// the newest. Its existing value does not count.
  ///
  /// Returns false if they can't be combined. The default implementation combines each half by `combine`, and then the
  /// two. An operator whose results are as long as their inputs together copies each byte once if it implements this.
  func combineAll(_ input: borrowing MergeInput, into operand: inout MergeValue) -> Bool
}

extension MergeOperator {
  /// Returns false: the operator combines no operands.
  public func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool {
    false
  }

  /// Combines the operands by halves.
  public func combineAll(_ input: borrowing MergeInput, into operand: inout MergeValue) -> Bool {
    input.combine(by: self, into: &operand)
  }
}

/// A merge operator whose operands are values, so that it is defined by how two of them fold.
public protocol AssociativeMergeOperator: MergeOperator {
  /// Appends `older` with `newer` folded in to `value`, which is empty. Returns false if they are invalid.
  ///
  /// The operation must be associative: (a b) c equals a (b c).
  func fold(_ key: RawSpan, older: RawSpan, newer: RawSpan, into value: inout MergeValue) -> Bool

  /// Appends to `value` the value that a single operand makes for a key without a value. Returns false if the operand
  /// is invalid.
  ///
  /// The default implementation appends the operand.
  func begin(_ key: RawSpan, operand: RawSpan, into value: inout MergeValue) -> Bool
}

extension AssociativeMergeOperator {
  /// Appends the operand, unchanged.
  public func begin(_ key: RawSpan, operand: RawSpan, into value: inout MergeValue) -> Bool {
    value.append(operand)
    return true
  }

  /// Folds the operands with each other, and the result into the existing value.
  public func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
    var operand = MergeValue()
    guard combineAll(input, into: &operand) else { return false }
    return input.hasExisting
      ? fold(input.key, older: input.existing, newer: operand.bytes, into: &value)
      : begin(input.key, operand: operand.bytes, into: &value)
  }

  /// Combines two operands by `fold`.
  public func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool {
    fold(key, older: older, newer: newer, into: &operand)
  }
}
