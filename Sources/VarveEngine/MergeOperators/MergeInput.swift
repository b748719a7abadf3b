/// The input of a merge operator: the key, its existing value, and the operands from the oldest to the newest, of
/// which there is at least one.
///
/// The spans are valid during the call.
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

  /// Combines all operands into one by `mergeOperator`. Returns false if the operator can't combine them.
  func combine(by mergeOperator: some MergeOperator, into operand: inout MergeValue) -> Bool {
    operands.combine(keyView, by: mergeOperator, into: &operand)
  }

  /// Returns the operands to the caller that collected them.
  consuming func takeOperands() -> OperandStack { operands }

  /// The key.
  public var key: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime(keyView.rawSpan, borrowing: self) }
  }

  /// Whether the key had a value before the first operand.
  public var hasExisting: Bool { existingView != nil }

  /// The value before the first operand, or empty if none exists.
  public var existing: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime((existingView ?? ByteView()).rawSpan, borrowing: self) }
  }

  /// The number of operands, at least one.
  public var operandCount: Int { operands.count }

  /// The number of bytes of all operands.
  public var operandByteCount: Int { operands.byteCount }

  /// Returns an operand. Index 0 is the oldest. Stops the process if the index is not below `operandCount`.
  @_lifetime(borrow self)
  public func operand(_ index: Int) -> RawSpan {
    guard index >= 0, index < operands.count else {
      fatalError("operand \(index) of \(operands.count): ask operandCount first")
    }
    return unsafe overrideLifetime(operands.fromOldest(index).rawSpan, borrowing: self)
  }
}

/// The bytes that a merge operator writes.
public struct MergeValue: ~Copyable {
  private var writer = ByteWriter(capacity: 0)
  /// The charge of a large value, for as long as the value keeps its memory.
  private var charge: MemoryCharge?

  /// Creates an empty value.
  public init() {}

  /// The number of bytes.
  public var byteCount: Int { writer.count }

  /// The bytes written so far, valid until the next change.
  public var bytes: RawSpan {
    @_lifetime(borrow self)
    get { unsafe overrideLifetime(writer.view.rawSpan, borrowing: self) }
  }

  /// Appends bytes.
  public mutating func append(_ bytes: RawSpan) { bytes.withByteView { writer.append($0) } }

  /// Appends bytes.
  public mutating func append(_ bytes: [UInt8]) { writer.append(bytes) }

  /// Appends a little-endian integer.
  public mutating func append<Integer: FixedWidthInteger & BitwiseCopyable>(littleEndian integer: Integer) {
    writer.append(integer: integer)
  }

  /// Reserves memory for `byteCount` more bytes, so that appending them moves none.
  public mutating func reserve(_ byteCount: Int) { writer.reserve(byteCount) }

  /// Removes all bytes and keeps the memory.
  public mutating func removeAll() { writer.removeAll() }

  /// Removes all bytes, and the memory of a large value.
  mutating func reset() {
    writer.removeAll()
    if writer.capacity > Limits.largeSize {
      writer = ByteWriter(capacity: 0)
      charge = nil
    }
  }

  /// Charges the memory to an account if there is one and the value is large.
  mutating func chargeIfLarge(to account: MemoryAccount?) {
    if writer.capacity > Limits.largeSize, let account { charge = MemoryCharge(writer.capacity, to: account) }
  }

  var view: ByteView { writer.view }
}

/// The operands of a key in the order in which a scan finds them, the newest first. The bytes are copies.
///
/// Many large operands are in chunks, so that a new one moves none of the others.
struct OperandStack: ~Copyable {
  /// A buffer for operands after those of the first buffer. None of them spans two.
  private final class Chunk {
    let start: Int
    var bytes: ByteWriter
    private let charge: MemoryCharge

    init(start: Int, capacity: Int, account: MemoryAccount?) {
      self.start = start
      charge = MemoryCharge(capacity, to: account)
      bytes = ByteWriter(capacity: capacity, mapsLarge: true)
    }
  }

  /// The size from which another buffer begins, and above which a buffer is not kept.
  private static let chunkSize = 1 << 20

  private var first = ByteWriter(capacity: 0)
  private var chunks: [Chunk] = []
  private var ends: [Int] = []
  /// The trailer of each operand, for a scan that writes the operands out unchanged.
  private(set) var trailers: [Trailer] = []

  var count: Int { ends.count }
  var isEmpty: Bool { ends.isEmpty }
  var byteCount: Int { ends.last ?? 0 }

  /// Adds a copy of an operand. All but the first megabyte is charged to `account`.
  mutating func push(_ operand: ByteView, _ trailer: Trailer, account: MemoryAccount? = nil) {
    let start = byteCount
    let used = chunks.last.map { $0.bytes.count } ?? first.count
    if used > 0, used + operand.count > Self.chunkSize {
      chunks.append(Chunk(start: start, capacity: max(operand.count, Self.chunkSize), account: account))
    }
    if let chunk = chunks.last { chunk.bytes.append(operand) } else { first.append(operand) }
    ends.append(start + operand.count)
    trailers.append(trailer)
  }

  mutating func removeAll() {
    first.removeAll()
    if first.capacity > Self.chunkSize { first = ByteWriter(capacity: 0) }
    chunks = []
    ends.removeAll(keepingCapacity: true)
    trailers.removeAll(keepingCapacity: true)
  }

  /// Returns an operand. Index 0 is the newest.
  func fromNewest(_ index: Int) -> ByteView {
    let start = index == 0 ? 0 : ends[index - 1]
    guard let firstChunk = chunks.first, start >= firstChunk.start else { return first.view.slice(start, ends[index]) }
    var low = 0
    var high = chunks.count - 1
    while low < high {
      let middle = (low + high + 1) / 2
      if chunks[middle].start <= start { low = middle } else { high = middle - 1 }
    }
    let chunk = chunks[low]
    return chunk.bytes.view.slice(start - chunk.start, ends[index] - chunk.start)
  }

  /// Returns an operand. Index 0 is the oldest.
  func fromOldest(_ index: Int) -> ByteView { fromNewest(ends.count - 1 - index) }

  /// Combines all operands into one. Returns false if they can't be combined.
  ///
  /// Each half is combined first. With an operator whose result is as long as both inputs together, each byte is
  /// copied only as often as the number of operands can be halved.
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
