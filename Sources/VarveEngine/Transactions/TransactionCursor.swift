/// A cursor over the entries that a transaction sees: see `EngineCursor`, and `OptimisticTransaction.cursor`.
///
/// It shows the transaction as it was when the cursor was created.
public struct TransactionCursor: ~Copyable {
  private var cursor: EngineCursor
  private let lower: [UInt8]?
  private let upper: [UInt8]?
  private let reads: TransactionReads?
  private let family: FamilyState
  /// The range that the cursor has read since the last seek.
  private var range: ReadRange?

  init(_ cursor: consuming EngineCursor, _ bounds: CursorBounds, _ reads: TransactionReads?, _ family: FamilyState) {
    self.cursor = cursor
    lower = bounds.lower
    upper = bounds.upper
    self.reads = reads
    self.family = family
  }

  /// A Boolean value that indicates whether the cursor is at a key.
  public var isValid: Bool { cursor.isValid }

  /// The key, valid until the cursor moves. Requires: valid.
  public var key: RawSpan {
    @_lifetime(borrow self)
    get { cursor.key }
  }

  /// The value, valid until the cursor moves. Requires: valid.
  public var value: RawSpan {
    @_lifetime(borrow self)
    get { cursor.value }
  }

  /// A copy of the key. Requires: valid.
  public var keyBytes: [UInt8] { cursor.keyBytes }
  /// A copy of the value. Requires: valid.
  public var valueBytes: [UInt8] { cursor.valueBytes }

  /// Moves to the first key within the bounds.
  public mutating func seekToFirst() throws(EngineError) {
    begin(lower: lower, upper: nil)
    try cursor.seekToFirst()
    noteForward(isFirst: true)
  }

  /// Moves to the last key within the bounds.
  public mutating func seekToLast() throws(EngineError) {
    begin(lower: nil, upper: upper)
    try cursor.seekToLast()
    noteBackward(isFirst: true)
  }

  /// Moves to the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: [UInt8]) throws(EngineError) {
    begin(lower: key, upper: nil)
    try cursor.seek(key)
    noteForward(isFirst: true)
  }

  /// Moves to the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: [UInt8]) throws(EngineError) {
    begin(lower: nil, upper: key)
    try cursor.seekForPrevious(key)
    noteBackward(isFirst: true)
  }

  /// Moves to the next key. Requires: valid.
  public mutating func next() throws(EngineError) {
    try cursor.next()
    noteForward()
  }

  /// Moves to the previous key. Requires: valid.
  public mutating func previous() throws(EngineError) {
    try cursor.previous()
    noteBackward()
  }

  /// Begins a range for a seek. A failed seek counts as having read everything that it could have read.
  private mutating func begin(lower: [UInt8]?, upper: [UInt8]?) {
    guard let reads else { return }
    let range = reads.beginRange(in: family.id, named: family.name)
    if let lower { lower.withByteView { range.setLower($0) } }
    if let upper { upper.withByteView { range.setUpper($0) } }
    self.range = range
  }

  /// Extends the range to the cursor's position, or to the end.
  ///
  /// The first step after a seek sets the range's end; later ones only extend it.
  private mutating func noteForward(isFirst: Bool = false) {
    guard let range else { return }
    if cursor.isValid {
      cursor.key.withByteView { key in
        if isFirst || range.upper.map({ $0 < key }) ?? false { range.setUpper(key) }
      }
    } else if let upper {
      upper.withByteView { range.setUpper($0) }
    } else {
      range.setUpper(nil)
    }
  }

  private mutating func noteBackward(isFirst: Bool = false) {
    guard let range else { return }
    if cursor.isValid {
      cursor.key.withByteView { key in
        if isFirst || range.lower.map({ $0 > key }) ?? false { range.setLower(key) }
      }
    } else if let lower {
      lower.withByteView { range.setLower($0) }
    } else {
      range.setLower(nil)
    }
  }
}
