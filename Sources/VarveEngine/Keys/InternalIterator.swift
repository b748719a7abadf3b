/// The contract of every internal iterator: memtable, table, level, merge.
///
/// The floors of the engine use the concrete types; this protocol is for generic code (`some
/// InternalIterator`, specialised in this module) and for the suites that run over all of them.
///
/// # Invariants
/// 1. An iterator is *valid* (stands on an entry) or not. It begins as not valid.
/// 2. Entries come in internal-key order: user key ascending, trailer descending. No two are equal.
/// 3. `userKey`, `trailer` and `value` may be read only while valid; the views last until the
///    iterator moves.
/// 4. `next` and `previous` may be called only while valid. `previous` from the first entry, and
///    `next` from the last, leave it not valid.
/// 5. A move that throws leaves the iterator not valid. A later seek may succeed.
/// 6. The iterator shows every version and tombstone: visibility is decided above.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
protocol InternalIterator: ~Copyable {
  var isValid: Bool { get }
  var userKey: ByteView { get }
  var trailer: Trailer { get }
  /// The value of a put, the operand of a merge, empty for a delete.
  var value: ByteView { get }
  /// A key that no entry is before, which is known without reading a file; nil for what lies in memory.
  var lowestKey: ByteView? { get }

  mutating func seekToFirst() throws(EngineError)
  mutating func seekToLast() throws(EngineError)
  /// To the first entry at or after `target`.
  mutating func seek(_ target: InternalKey) throws(EngineError)
  /// To the last entry before `target` (strictly).
  mutating func seekBefore(_ target: InternalKey) throws(EngineError)
  mutating func next() throws(EngineError)
  mutating func previous() throws(EngineError)
  /// From a tombstone past blocks of nothing but tombstones before `limit`, where there are such: see `TableIterator`.
  /// Returns how many entries it passed. Requires: valid.
  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int
}

extension InternalIterator where Self: ~Copyable {
  var lowestKey: ByteView? { nil }
  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int { 0 }
}
