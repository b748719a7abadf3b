/// A consistent state that can be read: a snapshot, or a transaction's view. Safe from any thread, unless the type that
/// creates it documents otherwise.
public protocol StorageReading: AnyObject, Sendable {
  /// Calls `body` once with the value of a key, which it may not keep, or not at all if the key has no value.
  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws
  /// Returns a copy of the value of a key, or nil if there is none.
  func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]?
  /// Calls `body` once with the row at an offset of a range, which it may not keep, or not at all if no row has it.
  ///
  /// Returns the number of rows before the offset, which is the number of all rows if no row has the offset. The offset
  /// is not negative. Complexity: a step for each row before the offset.
  @discardableResult
  func visitRow(
    at offset: Int, of range: StorageRange, in family: StorageFamily,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws -> Int
  /// Calls `body` with the rows of a range, which it may not keep, in key order until it returns false.
  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws
  /// Returns rows of a range from its beginning, or from its end if `isReverse` is true.
  ///
  /// The page has rows until their size reaches `byteLimit`, but at least one and at most `rowLimit`. With `keysOnly`,
  /// the values are empty.
  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage
}

extension StorageReading {
  /// Calls `body` with the rows of a range, which are read in pages.
  public func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    var cursor = FamilyCursor(range, in: family, of: self, isReverse: false)
    while try cursor.withNext(body) == true {}
  }

  /// Calls `body` with the row at an offset of a range, which is found by reading the rows before it in pages.
  @discardableResult
  public func visitRow(
    at offset: Int, of range: StorageRange, in family: StorageFamily,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws -> Int {
    let wanted = offset < FamilyCursor.pageRowsMaximum ? offset + 1 : nil
    var cursor = FamilyCursor(range, in: family, of: self, isReverse: false, wanted: wanted)
    var passed = 0
    while try cursor.withNext({ key, value in
      if passed == offset { try body(key, value) }
      return passed < offset
    }) == true {
      passed += 1
    }
    return passed
  }

  /// Calls `body` once with the first row of a range, which it may not keep, or not at all if the range has no rows.
  public func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    if !range.isEmpty { try visitRow(at: 0, of: range, in: family, body) }
  }

  /// Returns the result of `body` for the value of a key, which it may not keep, or nil if the key has no value.
  public func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    var result: Result?
    try visit(key, in: family) { result = try body($0) }
    return result
  }

  /// Returns a copy of the value of a key, or nil if there is none.
  public func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    try withValue(of: key, in: family) { $0.copied }
  }

  /// Returns whether a key has a value.
  public func contains(_ key: [UInt8], in family: StorageFamily) throws -> Bool {
    try withValue(of: key, in: family) { _ in true } ?? false
  }
}

/// The state of a storage after one commit. A snapshot is released with its last reference. Safe from any thread.
public protocol StorageSnapshot: StorageReading {
  /// The last commit that the snapshot sees.
  var version: CommitVersion { get }
  /// Returns the values of several keys, in the order of the keys.
  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?]
  /// Returns whether the snapshot has a family of some name that is not `family`, as far as the storage knows: it was
  /// dropped since, and perhaps another one was created with its name. Used where another process writes. Default:
  /// false.
  func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool
}

extension StorageSnapshot {
  /// Returns false.
  public func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool { false }
}
