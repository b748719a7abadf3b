/// What a merge operator is given: the key, what is there before, and the operands from the oldest to the
/// newest, at least one.
///
/// Its spans are valid during the call.
@safe
public struct MergeInput: ~Copyable {
  private let keyView: ByteView
  private let existingView: ByteView?
  private let operands: OperandStack

  init(key: ByteView, existing: ByteView?, operands: consuming OperandStack) {
    keyView = key
    existingView = existing
    self.operands = operands
  }

  /// All operands as one, by an operator that combines. False where it doesn't.
  func combine(by mergeOperator: some MergeOperator, into operand: inout MergeValue) -> Bool {
    operands.combine(keyView, by: mergeOperator, into: &operand)
  }

  /// Gives the operands back to the caller that collected them.
  consuming func takeOperands() -> OperandStack { operands }

  /// The key.
  public var key: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime(keyView.rawSpan, borrowing: self) }
  }

  /// Whether the key had a value before the first operand.
  public var hasExisting: Bool { existingView != nil }

  /// The value before the first operand; empty if none exists.
  public var existing: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime((existingView ?? ByteView()).rawSpan, borrowing: self) }
  }

  /// How many operands there are: one at least.
  public var operandCount: Int { operands.count }

  /// An operand; index 0 is the oldest. Stops the process for an index beyond `operandCount`.
  @_lifetime(borrow self)
  public func operand(_ index: Int) -> RawSpan {
    guard index >= 0, index < operands.count else {
      fatalError("operand \(index) of \(operands.count): ask operandCount first")
    }
    return unsafe overrideLifetime(operands.fromOldest(index).rawSpan, borrowing: self)
  }
}

/// The bytes that a merge operator makes.
public struct MergeValue: ~Copyable {
  private var writer = ByteWriter(capacity: 0)

  /// Empty.
  public init() {}

  /// How many bytes there are.
  public var byteCount: Int { writer.count }

  /// The bytes so far, valid until the next change.
  public var bytes: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime(writer.view.rawSpan, borrowing: self) }
  }

  /// Appends bytes.
  public mutating func append(_ bytes: RawSpan) { bytes.withByteView { writer.append($0) } }

  /// Appends bytes.
  public mutating func append(_ bytes: [UInt8]) { writer.append(bytes) }

  /// Adds an integer, little-endian.
  public mutating func append<Integer: FixedWidthInteger & BitwiseCopyable>(littleEndian integer: Integer) {
    writer.append(integer: integer)
  }

  /// Forgets the bytes and keeps the memory.
  public mutating func removeAll() { writer.removeAll() }

  var view: ByteView { writer.view }
}

/// The operands of a key as a scan meets them: the newest first. The bytes are copies.
struct OperandStack: ~Copyable {
  private var bytes = ByteWriter(capacity: 0)
  private var ends: [Int] = []
  /// Each operand's trailer, where the scan wants to give them on as they were.
  private(set) var trailers: [Trailer] = []

  var count: Int { ends.count }
  var isEmpty: Bool { ends.isEmpty }
  var byteCount: Int { bytes.count }

  mutating func push(_ operand: ByteView, _ trailer: Trailer) {
    bytes.append(operand)
    ends.append(bytes.count)
    trailers.append(trailer)
  }

  mutating func removeAll() {
    bytes.removeAll()
    ends.removeAll(keepingCapacity: true)
    trailers.removeAll(keepingCapacity: true)
  }

  /// Index 0 is the newest.
  func fromNewest(_ index: Int) -> ByteView { bytes.view.slice(index == 0 ? 0 : ends[index - 1], ends[index]) }

  /// Index 0 is the oldest.
  func fromOldest(_ index: Int) -> ByteView { fromNewest(ends.count - 1 - index) }

  /// All operands as one. False where they can't be combined.
  ///
  /// Halves are combined first: an operator whose outcome is as long as both together copies each byte only
  /// as often as the number of operands can be halved.
  func combine(_ key: ByteView, by mergeOperator: some MergeOperator, into operand: inout MergeValue) -> Bool {
    combine(0..<count, key, mergeOperator, into: &operand)
  }

  private func combine(
    _ range: Range<Int>, _ key: ByteView, _ mergeOperator: some MergeOperator, into operand: inout MergeValue
  ) -> Bool {
    operand.removeAll()
    if range.count == 1 {
      operand.append(unsafe fromOldest(range.lowerBound).rawSpan)
      return true
    }
    let middle = range.lowerBound + range.count / 2
    var older = MergeValue()
    var newer = MergeValue()
    guard combine(range.lowerBound..<middle, key, mergeOperator, into: &older),
      combine(middle..<range.upperBound, key, mergeOperator, into: &newer)
    else { return false }
    let isDone = unsafe mergeOperator.combine(
      key.rawSpan, older: older.view.rawSpan, newer: newer.view.rawSpan, into: &operand)
    return isDone && operand.byteCount <= Limits.valueSizeMaximum
  }
}
