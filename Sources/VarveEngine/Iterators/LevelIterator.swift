/// The tables of one sorted run as one iterator: one table after the other.
///
///     run       ──t0──   ──t1────   ──t2──   ──t3───
///     open               ╰──here──╯
///
/// At most one table is open, and none before the first seek. A seek finds its table by the bounds in
/// the run, without touching a file.
///
/// # Invariants
/// 1. `isOpen`: `current` is initialised, and iterates over `run.tables[index]`.
/// 2. `isValid`: `isOpen`, and `current` stands on an entry.
///
/// A table may turn out to have no entry where its bounds announce some (it holds range tombstones
/// alone): moves then go on to the next table, in a loop.
///
/// # Safety
/// The only owner of the memory of `current`. Views are those of the open table's iterator, valid
/// until this one moves.
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

  /// The open table's iterator. Requires: valid.
  @inline(__always)
  func withCurrent<R, E: Error>(_ body: (borrowing Table) throws(E) -> R) throws(E) -> R {
    assert(isValid, "a table is open only while the iterator is valid")
    return try unsafe body(current.pointee)
  }

  /// A move of the open table's iterator forward, by whatever distance. Requires: valid.
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
    // A table that begins after the key need not be opened to know that it has nothing before it.
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

  /// Continues to the next table with an entry, where the open one has no more.
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

/// An iterator over one table that a `LevelIterator` opens when it gets there.
///
/// A type of its own rather than a closure: the level's loop is specialised for it, and nothing is
/// allocated to carry what opening needs.
protocol OpenableIterator: InternalIterator, ~Copyable {
  /// What opening needs: in the engine, where readers are found and for which purpose they read.
  associatedtype Opener

  /// An iterator that stands nowhere yet. The table lives as long as the level that names it.
  static func open(_ table: TableMetadata, _ opener: Opener) throws(EngineError) -> Self
}
