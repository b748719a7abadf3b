/// The interface of every internal iterator: over a memtable, a table, a level, or a merge of them.
///
/// The layers of the engine use the concrete types. The protocol is for generic code (`some InternalIterator`,
/// specialized in this module) and for test suites that run over all of them.
///
/// # Invariants
/// 1. An iterator is *valid* (positioned on an entry) or not. It begins as not valid.
/// 2. Entries come in internal-key order: user key ascending, trailer descending. No two are equal.
/// 3. `userKey`, `trailer` and `value` may be read only while the iterator is valid. The views are valid until it
///    moves.
/// 4. `next` and `previous` may be called only while the iterator is valid. `previous` from the first entry, and
///    `next` from the last, leave it not valid.
/// 5. A move that throws leaves the iterator not valid. A later seek may succeed.
/// 6. The iterator returns every version and tombstone. Visibility is decided by the layers above.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
protocol InternalIterator: ~Copyable {
  var isValid: Bool { get }
  var userKey: ByteView { get }
  var trailer: Trailer { get }
  /// The value of a put, the operand of a merge, or empty bytes for a delete.
  var value: ByteView { get }
  /// A lower bound of all keys that is known without reading a file, or nil for an iterator over memory.
  var lowestKey: ByteView? { get }

  mutating func seekToFirst() throws(EngineError)
  mutating func seekToLast() throws(EngineError)
  /// Moves to the first entry at or after `target`.
  mutating func seek(_ target: InternalKey) throws(EngineError)
  /// Moves to the last entry strictly before `target`.
  mutating func seekBefore(_ target: InternalKey) throws(EngineError)
  mutating func next() throws(EngineError)
  mutating func previous() throws(EngineError)
  /// Moves from a tombstone past blocks that hold only tombstones before `limit`, if there are any (see
  /// `TableIterator`).
  ///
  /// Returns the number of entries passed. Requires that the iterator is valid.
  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int
}

extension InternalIterator where Self: ~Copyable {
  var lowestKey: ByteView? { nil }
  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int { 0 }
}
