/// Something that can be read at one moment: a snapshot, or what a transaction sees. Safe from any thread, unless
/// what makes it says otherwise.
public protocol StorageReading: AnyObject, Sendable {
  /// Calls `body` once with the value of a key, which it may not keep, and does not call it if there is none.
  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws
  /// The value of a key, copied, or nil if there is none.
  func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]?
  /// Calls `body` once with the first row of a range, of which it may not keep anything, and does not call it if there is
  /// none.
  func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws
  /// Calls `body` with the rows of a range in their order, of which it may not keep anything, until it returns false.
  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws
  /// The rows of a range from its beginning, or from its end where `isReverse`: as many as come to
  /// `byteLimit`, at least one, at most `rowLimit`. With `keysOnly` their values are left out: empty.
  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage
}

extension StorageReading {
  /// The rows of pages.
  public func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    var cursor = FamilyCursor(range, in: family, of: self, isReverse: false)
    while try cursor.withNext(body) == true {}
  }

  /// The first row of a page.
  public func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    if range.isEmpty { return }
    let page = try page(range, in: family, isReverse: false, keysOnly: false, byteLimit: 1, rowLimit: 1)
    if page.count > 0 { try page.withEntry(0, body) }
  }

  /// What `body` makes of the value of a key, which it may not keep, or nil if there is none.
  public func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    var result: Result?
    try visit(key, in: family) { result = try body($0) }
    return result
  }

  /// The value of a key, copied.
  public func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    try withValue(of: key, in: family) { $0.copied }
  }

  /// Whether a key has a value.
  public func contains(_ key: [UInt8], in family: StorageFamily) throws -> Bool {
    try withValue(of: key, in: family) { _ in true } ?? false
  }
}

/// A storage at one moment. It ends with its last reference. Safe from any thread.
public protocol StorageSnapshot: StorageReading {
  /// The last commit that it sees.
  var version: CommitVersion { get }
  /// The values of several keys, in their order.
  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?]
  /// Whether a family was made after the snapshot, as far as the storage knows. Asked where another process writes, which
  /// may have dropped a family and made another by its name. Default: false.
  func isOlder(than family: StorageFamily) -> Bool
}

extension StorageSnapshot {
  /// False.
  public func isOlder(than family: StorageFamily) -> Bool { false }
}
