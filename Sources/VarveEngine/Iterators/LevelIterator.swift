/// Iterates over the tables of one sorted run, one table after the other.
///
///     run       ──t0──   ──t1────   ──t2──   ──t3───
///     open               ╰──here──╯
///
/// At most one table is open, and none before the first seek. A seek finds its table by the bounds in the run,
/// without accessing a file.
///
/// # Invariants
/// 1. If `isOpen` is true, `current` is initialized and iterates over `run.tables[index]`.
/// 2. If `isValid` is true, `isOpen` is true and `current` is at an entry.
///
/// A table may have no entry although its bounds announce some, if it holds only range tombstones. Moves then
/// continue to the next table, in a loop.
///
/// # Safety
/// The iterator is the only owner of the memory of `current`. Its views are those of the open table's iterator, valid
/// until this iterator moves.
///
/// # Concurrency
/// One iterator belongs to one thread at a time.
@safe
struct LevelIterator<Table: OpenableIterator & ~Copyable>: InternalIterator, ~Copyable {
  private let run: SortedRun
  private let opener: Table.Opener
  private let current: UnsafeMutablePointer<Table>
  private var index = 0
  private var isOpen = false
  private(set) var isValid = false

  init(_ run: SortedRun, _ opener: Table.Opener) {
    self.run = run
    self.opener = opener
    unsafe current = .allocate(capacity: 1)
  }

  deinit {
    if isOpen { unsafe current.deinitialize(count: 1) }
    unsafe current.deallocate()
  }

  // MARK: - The entry

  @inline(__always)
  var userKey: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe current.pointee.userKey
  }

  @inline(__always)
  var trailer: Trailer {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe current.pointee.trailer
  }

  @inline(__always)
  var value: ByteView {
    assert(isValid, "an entry is read only while the iterator is valid")
    return unsafe current.pointee.value
  }

  var lowestKey: ByteView? { run.tables.first?.smallest }

  /// Calls `body` with the open table's iterator. Requires that the iterator is valid.
  @inline(__always)
  func withCurrent<R, E: Error>(_ body: (borrowing Table) throws(E) -> R) throws(E) -> R {
    assert(isValid, "a table is open only while the iterator is valid")
    return try unsafe body(current.pointee)
  }

  /// Moves the open table's iterator forward, by any distance. Requires that the iterator is valid.
  mutating func step(_ move: (inout Table) throws(EngineError) -> Void) throws(EngineError) {
    assert(isValid, "a step from an entry only")
    isValid = false
    unsafe try move(&current.pointee)
    try settleForward()
  }

  // MARK: - Moves

  mutating func seekToFirst() throws(EngineError) {
    isValid = false
    guard !run.isEmpty else { return }
    try open(0)
    unsafe try current.pointee.seekToFirst()
    try settleForward()
  }

  mutating func seekToLast() throws(EngineError) {
    isValid = false
    guard !run.isEmpty else { return }
    try open(run.count - 1)
    unsafe try current.pointee.seekToLast()
    try settleBackward()
  }

  mutating func seek(_ target: InternalKey) throws(EngineError) {
    isValid = false
    let position = run.firstIndex(notBefore: target.userKey)
    guard position < run.count else { return }
    try open(position)
    unsafe try current.pointee.seek(target)
    try settleForward()
  }

  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    isValid = false
    let position = run.firstIndex(notBefore: target.userKey)
    guard position < run.count else { return try seekToLast() }
    // A table that begins after the key need not be opened: it has no entry before the key.
    if run.tables[position].smallest.compare(target.userKey) > 0 {
      guard position > 0 else { return }
      try open(position - 1)
      unsafe try current.pointee.seekToLast()
    } else {
      try open(position)
      unsafe try current.pointee.seekBefore(target)
    }
    try settleBackward()
  }

  @inline(__always)
  mutating func next() throws(EngineError) {
    assert(isValid, "next from an entry only")
    do throws(EngineError) {
      unsafe try current.pointee.next()
    } catch {
      isValid = false
      throw error
    }
    if unsafe !current.pointee.isValid { try settleForward() }
  }

  @inline(__always)
  mutating func previous() throws(EngineError) {
    assert(isValid, "previous from an entry only")
    do throws(EngineError) {
      unsafe try current.pointee.previous()
    } catch {
      isValid = false
      throw error
    }
    if unsafe !current.pointee.isValid { try settleBackward() }
  }

  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int {
    assert(isValid, "blocks are passed from an entry only")
    isValid = false
    let passed = unsafe try current.pointee.passDeadBlocks(before: limit)
    if passed > 0 { try settleForward() } else { isValid = true }
    return passed
  }

  // MARK: - From table to table

  /// Continues to the next table with an entry, if the open one has no more.
  @inline(never)
  private mutating func settleForward() throws(EngineError) {
    isValid = false
    while unsafe !current.pointee.isValid {
      guard index + 1 < run.count else { return }
      try open(index + 1)
      unsafe try current.pointee.seekToFirst()
    }
    isValid = true
  }

  @inline(never)
  private mutating func settleBackward() throws(EngineError) {
    isValid = false
    while unsafe !current.pointee.isValid {
      guard index > 0 else { return }
      try open(index - 1)
      unsafe try current.pointee.seekToLast()
    }
    isValid = true
  }

  private mutating func open(_ position: Int) throws(EngineError) {
    if isOpen {
      if index == position { return }
      isOpen = false
      unsafe current.deinitialize(count: 1)
    }
    unsafe current.initialize(to: try Table.open(run.tables[position], opener))
    index = position
    isOpen = true
  }
}

/// An iterator over one table that a `LevelIterator` opens when it reaches the table.
///
/// A protocol rather than a closure, because the level's loop is specialized for it and nothing is allocated for the
/// arguments of `open`.
protocol OpenableIterator: InternalIterator, ~Copyable {
  /// The context of opening a table: in the engine, the source of its reader and the purpose of the reads.
  associatedtype Opener

  /// Returns an iterator that is not positioned. The table lives as long as the level that names it.
  static func open(_ table: TableMetadata, _ opener: Opener) throws(EngineError) -> Self
}
