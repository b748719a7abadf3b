/// Folds operands into the value of a key. `merge` stores an operand without a read; the operator folds it when the key
/// is read or a compaction meets it.
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
  /// Stored with the family. 1 to 255 bytes.
  var name: String { get }

  /// Puts the key's value into `value`, which is empty: what was there before, if anything, with the
  /// operands folded in from the oldest to the newest.
  ///
  /// False where the operands make no sense: a read of the key throws `.mergeFailed` then, and the operands
  /// stay as they are.
  func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool

  /// Puts into `operand`, which is empty, one operand that does what both do, one after the other.
  ///
  /// False, which is what it does unless it is given: they can't be combined, and both are kept. An operator
  /// that combines keeps hot keys small: a flush leaves one operand of each.
  func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool
}

extension MergeOperator {
  /// Returns false: the operator combines no operands.
  public func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool {
    false
  }
}

/// An operator whose operands are values, so that folding two of them is all there is to say.
public protocol AssociativeMergeOperator: MergeOperator {
  /// Puts `older` with `newer` folded in into `value`, which is empty. False where they make no sense.
  ///
  /// Must be associative: (a b) c is a (b c).
  func fold(_ key: RawSpan, older: RawSpan, newer: RawSpan, into value: inout MergeValue) -> Bool

  /// Puts the value that a single operand without anything before it makes into `value`. Unless it is given,
  /// that is the operand; false where it makes no sense.
  func begin(_ key: RawSpan, operand: RawSpan, into value: inout MergeValue) -> Bool
}

extension AssociativeMergeOperator {
  /// The operand is the value.
  public func begin(_ key: RawSpan, operand: RawSpan, into value: inout MergeValue) -> Bool {
    value.append(operand)
    return true
  }

  /// Folds the operands with each other, and the outcome into what is there.
  public func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
    var operand = MergeValue()
    guard input.combine(by: self, into: &operand) else { return false }
    return input.hasExisting
      ? fold(input.key, older: input.existing, newer: operand.bytes, into: &value)
      : begin(input.key, operand: operand.bytes, into: &value)
  }

  /// Two operands fold as values do.
  public func combine(_ key: RawSpan, older: RawSpan, newer: RawSpan, into operand: inout MergeValue) -> Bool {
    fold(key, older: older, newer: newer, into: &operand)
  }
}
