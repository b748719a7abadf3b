/// What a transaction writes, and reads over its snapshot until it is committed or dropped.
///
/// Of several entries of a key the newest counts, and a commit writes that one alone. A range delete removes what
/// the snapshot has and what was written before. An operation that throws has changed nothing.
///
/// # Savepoints
/// They nest. Undoing one takes back what was written since, whatever else there is; what counted before counts again.
///
/// # Views
/// A view shows what a family holds when it is made, whatever is written later. A view that was made inside a savepoint
/// which was then undone may throw. It may outlive what it was made of.
///
/// # Concurrency
/// Belongs to one thread at a time, and so do its views while it is written to.
public protocol StorageWriting: AnyObject {
  /// Whether the commit would write nothing.
  var isEmpty: Bool { get }
  /// About how many bytes count for the limit of a commit: those that it writes, and those of families that are left out.
  var byteCount: Int { get }

  /// Sets the value of a key. Throws `.keyTooLong`, `.valueTooLong` and `.batchTooLarge`, as do the others.
  func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws
  /// Removes a key, whether it is there or not.
  func delete(_ key: [UInt8], in family: StorageFamily) throws
  /// Removes a key that was put at most once since it was removed last. Of a put and its single delete nothing is
  /// committed.
  func singleDelete(_ key: [UInt8], in family: StorageFamily) throws
  /// Removes the keys of a range.
  func deleteRange(_ range: StorageRange, in family: StorageFamily) throws
  /// Gives a number to a counter, by the rule of its family.
  func add(_ number: Int64, by rule: CounterRule, to key: [UInt8], in family: StorageFamily) throws
  /// Sets the value of a key; the eight bytes at `position`, which lie within the key or the value, become the commit's
  /// version, big-endian. Until then they read as 0xFF.
  func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws

  /// Adds a put, a delete or the delete of a range to what is written after everything else, in the order of the calls.
  /// It is not read before the commit: reads, views and the other changes of the family don't see it. Key and value are
  /// as `StorageBatch.forEach` passes them.
  func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws
  /// Appends a put with a stamp: see `putStamped`.
  func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws
  /// Whether something was appended that goes to a family.
  func hasAppended(to family: StorageFamily) -> Bool
  /// Leaves a family, to which nothing was written yet, out of the commit, also after undone savepoints: nothing but this
  /// ever reads what is written to it.
  func leaveOut(_ family: StorageFamily) throws
  /// Whether a family is left out.
  func leavesOut(_ family: StorageFamily) -> Bool

  /// Calls `body` once with the value of a key, which it may not keep, and does not call it if there is none.
  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws
  /// Calls `body` once with the first entry of a range; not at all if it is empty. Complexity: a seek, however much
  /// is written and whatever comes after the range.
  func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws
  /// Calls `body` with the entries of a range in their order, until it returns false. As `visitFirst`; `body` writes nothing.
  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws
  /// Whether what was written decides alone what a key is: the snapshot does not matter to it.
  func decides(_ key: [UInt8], in family: StorageFamily) -> Bool
  /// What a family holds now. Complexity: constant, but for storages without writing of their own.
  func view(of family: StorageFamily) -> any StorageReading

  /// Remembers what there is now. Throws, and has set nothing, if there is no memory for it.
  func setSavepoint() throws
  /// Ends the last savepoint, and keeps what came since.
  func releaseSavepoint()
  /// Ends the last savepoint, and undoes what came since.
  func rollBack()
}

extension StorageWriting {
  /// Sets the value of a key; key and value are arrays.
  @inline(__always)
  func put(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) throws {
    try unsafe put(key.span.bytes, value.span.bytes, in: family)
  }

  /// What `body` makes of the value of a key, which it may not keep, or nil if there is none.
  @inline(__always)
  func withValue<Result>(
    of key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    var result: Result?
    try visit(key, in: family) { result = try body($0) }
    return result
  }
}
