/// The writes of a transaction, and its reads over its snapshot, until the transaction is committed or dropped.
///
/// Of several entries of a key the newest takes precedence, and a commit writes that one alone. A range delete removes
/// the keys of the snapshot and those written before it. An operation that throws has changed nothing.
///
/// # Savepoints
/// Savepoints nest. Rolling back to one undoes all writes since it was set, and restores the entries that they
/// replaced.
///
/// # Views
/// A view shows the contents of a family at its creation, whatever is written later. A view that was created inside a
/// savepoint which was then rolled back may throw. A view may outlive the writes it was created from.
///
/// # Concurrency
/// An instance belongs to one thread at a time, and so do its views while it is written to.
public protocol StorageWriting: AnyObject {
  /// Whether the commit would write nothing.
  var isEmpty: Bool { get }
  /// The approximate number of bytes that count toward the size limit of a commit: those that it writes, and those
  /// written to families that are left out.
  var byteCount: Int { get }

  /// Sets the value of a key. Throws `.keyTooLong`, `.valueTooLong` and `.batchTooLarge`, as the other writes do.
  func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws
  /// Removes a key, whether it is there or not.
  func delete(_ key: [UInt8], in family: StorageFamily) throws
  /// Removes a key that was put at most once since it was last removed. A put and its single delete in the same
  /// transaction cancel out: neither is committed.
  func singleDelete(_ key: [UInt8], in family: StorageFamily) throws
  /// Removes the keys of a range.
  func deleteRange(_ range: StorageRange, in family: StorageFamily) throws
  /// Applies a number to a counter, by the rule of its family.
  func add(_ number: Int64, by rule: CounterRule, to key: [UInt8], in family: StorageFamily) throws
  /// Sets the value of a key, in which the eight bytes at `position`, within the key or the value, become the commit's
  /// version, big-endian. They read as 0xFF until the commit.
  func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws

  /// Appends a put, a delete or a range delete that is written after all other changes, in the order of the calls.
  ///
  /// An appended change is not visible before the commit: reads, views and the other changes of the family do not see
  /// it. Key and value are encoded as `StorageBatch.forEach` passes them.
  func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws
  /// Appends a stamped put: see `putStamped`.
  func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws
  /// Returns whether a change was appended for a family.
  func hasAppended(to family: StorageFamily) -> Bool
  /// Returns the last change of a key that was appended, or nil if there is none. Appended range deletes are ignored.
  /// Complexity: amortized constant for each appended change, or linear in them for storages that do not implement
  /// writing themselves.
  func appendedChange(of key: [UInt8], in family: StorageFamily) throws -> AppendedChange?
  /// Leaves a family, to which nothing was written yet, out of the commit, also after savepoints are rolled back. The
  /// writes to it are visible through this instance only.
  func markAsScratch(_ family: StorageFamily) throws
  /// Returns whether a family is left out of the commit.
  func isScratch(_ family: StorageFamily) -> Bool

  /// Calls `body` once with the value of a key, which it may not keep, or not at all if the key has no value.
  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws
  /// Calls `body` once with the first row of a range, or not at all if the range has no rows. Complexity: one seek,
  /// independent of the number of writes and of the rows after the range.
  func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws
  /// Calls `body` with the rows of a range in key order until it returns false. `body` must not write. Complexity: as
  /// for `visitFirst`.
  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws
  /// Returns whether the writes alone determine the value of a key, so that the snapshot need not be read.
  func decides(_ key: [UInt8], in family: StorageFamily) -> Bool
  /// Returns a view of the current contents of a family. Complexity: constant, except for storages that do not
  /// implement writing themselves.
  func view(of family: StorageFamily) -> any StorageReading

  /// Sets a savepoint. Throws without setting it if there is no memory for it.
  func setSavepoint() throws
  /// Removes the last savepoint and keeps the writes since.
  func releaseSavepoint()
  /// Removes the last savepoint and undoes the writes since.
  func rollBack()
}

/// A change of a key that was appended.
public enum AppendedChange: Hashable, Sendable {
  /// The key has this value.
  case put([UInt8])
  /// The key has no value.
  case delete
}

extension StorageWriting {
  /// Sets the value of a key, given as arrays.
  @inline(__always)
  func put(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) throws {
    try unsafe put(key.span.bytes, value.span.bytes, in: family)
  }

  /// Returns the result of `body` for the value of a key, which it may not keep, or nil if the key has no value.
  @inline(__always)
  func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    var result: Result?
    try visit(key, in: family) { result = try body($0) }
    return result
  }
}
