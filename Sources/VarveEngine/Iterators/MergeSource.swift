/// A source of a merge: a memtable, a table, or the tables of a sorted run.
///
/// A closed enumeration is used instead of an existential, so that a step is a comparison of one byte and a direct
/// call. The iterator is stored at a pointer, so that it is changed in place, and so that comparing and moving a
/// source takes two words whatever the size of the largest iterator.
///
/// # Safety
/// The source is the only owner of the iterator at `base`, which is initialized to the type that `kind` names from
/// `init` to `deinit`.
@safe
struct MergeSource: ~Copyable {
  private enum Kind: UInt8 {
    case memtable, table, level
  }

  // The pointer is first: if a byte is first, the compiler of Swift 6.3 crashes under the thread sanitizer.
  private let base: UnsafeMutableRawPointer
  private let kind: Kind

  init(_ memtable: MemTableIterator) {
    kind = .memtable
    unsafe base = Self.allocate(memtable)
  }

  init(_ table: TableIterator) {
    kind = .table
    unsafe base = Self.allocate(table)
  }

  init(_ level: consuming LevelIterator<TableIterator>) {
    kind = .level
    unsafe base = Self.allocate(level)
  }

  private static func allocate<Iterator: InternalIterator & ~Copyable>(
    _ iterator: consuming Iterator
  ) -> UnsafeMutableRawPointer {
    let memory = UnsafeMutablePointer<Iterator>.allocate(capacity: 1)
    unsafe memory.initialize(to: iterator)
    return UnsafeMutableRawPointer(memory)
  }

  deinit {
    switch kind {
    case .memtable: unsafe memtable.deinitialize(count: 1)
    case .table: unsafe table.deinitialize(count: 1)
    case .level: unsafe level.deinitialize(count: 1)
    }
    unsafe base.deallocate()
  }

  @inline(__always)
  private var memtable: UnsafeMutablePointer<MemTableIterator> {
    unsafe base.assumingMemoryBound(to: MemTableIterator.self)
  }

  @inline(__always)
  private var table: UnsafeMutablePointer<TableIterator> {
    unsafe base.assumingMemoryBound(to: TableIterator.self)
  }

  @inline(__always)
  private var level: UnsafeMutablePointer<LevelIterator<TableIterator>> {
    unsafe base.assumingMemoryBound(to: LevelIterator<TableIterator>.self)
  }

  /// The open table's iterator, or nil for a memtable. Requires that the source is valid.
  var tableIterator: TableIterator? {
    switch kind {
    case .memtable: nil
    case .table: unsafe table.pointee
    case .level: unsafe level.pointee.withCurrent { $0 }
    }
  }
}

extension MergeSource {
  /// Releases the iterator and keeps its entry (see `EntryHold`). Requires that the source is valid.
  mutating func giveUpEntry(to hold: EntryHold) {
    switch kind {
    case .memtable: hold.keep(unsafe memtable.pointee.owner)
    case .table: unsafe table.pointee.giveUpEntry { pin, key in unsafe hold.keep(pin, key: key) }
    case .level:
      unsafe level.pointee.withCurrent { (table) in
        unsafe table.giveUpEntry { pin, key in unsafe hold.keep(pin, key: key) }
      }
    }
  }
}

extension MergeSource: InternalIterator {
  @inline(__always)
  var isValid: Bool {
    switch kind {
    case .memtable: unsafe memtable.pointee.isValid
    case .table: unsafe table.pointee.isValid
    case .level: unsafe level.pointee.isValid
    }
  }

  @inline(__always)
  var userKey: ByteView {
    switch kind {
    case .memtable: unsafe memtable.pointee.userKey
    case .table: unsafe table.pointee.userKey
    case .level: unsafe level.pointee.userKey
    }
  }

  @inline(__always)
  var trailer: Trailer {
    switch kind {
    case .memtable: unsafe memtable.pointee.trailer
    case .table: unsafe table.pointee.trailer
    case .level: unsafe level.pointee.trailer
    }
  }

  @inline(__always)
  var value: ByteView {
    switch kind {
    case .memtable: unsafe memtable.pointee.value
    case .table: unsafe table.pointee.value
    case .level: unsafe level.pointee.value
    }
  }

  var lowestKey: ByteView? {
    switch kind {
    case .memtable, .table: nil
    case .level: unsafe level.pointee.lowestKey
    }
  }

  mutating func seekToFirst() throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.seekToFirst()
    case .table: unsafe try table.pointee.seekToFirst()
    case .level: unsafe try level.pointee.seekToFirst()
    }
  }

  mutating func seekToLast() throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.seekToLast()
    case .table: unsafe try table.pointee.seekToLast()
    case .level: unsafe try level.pointee.seekToLast()
    }
  }

  mutating func seek(_ target: InternalKey) throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.seek(target)
    case .table: unsafe try table.pointee.seek(target)
    case .level: unsafe try level.pointee.seek(target)
    }
  }

  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.seekBefore(target)
    case .table: unsafe try table.pointee.seekBefore(target)
    case .level: unsafe try level.pointee.seekBefore(target)
    }
  }

  @inline(__always)
  mutating func next() throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.next()
    case .table: unsafe try table.pointee.next()
    case .level: unsafe try level.pointee.next()
    }
  }

  @inline(__always)
  mutating func previous() throws(EngineError) {
    switch kind {
    case .memtable: unsafe memtable.pointee.previous()
    case .table: unsafe try table.pointee.previous()
    case .level: unsafe try level.pointee.previous()
    }
  }
}

extension MergeSource {
  mutating func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int {
    switch kind {
    case .memtable: 0
    case .table: unsafe try table.pointee.passDeadBlocks(before: limit)
    case .level: unsafe try level.pointee.passDeadBlocks(before: limit)
    }
  }
}

extension MergeSource: BlockSource {
  @inline(__always)
  var startsPlainBlock: Bool {
    switch kind {
    case .memtable: false
    case .table: unsafe table.pointee.startsPlainBlock
    case .level: unsafe level.pointee.startsPlainBlock
    }
  }

  func blockEnds(before limit: InternalKey) -> Bool {
    switch kind {
    case .memtable: false
    case .table: unsafe table.pointee.blockEnds(before: limit)
    case .level: unsafe level.pointee.blockEnds(before: limit)
    }
  }

  mutating func nextBlock() throws(EngineError) {
    switch kind {
    case .memtable: fatalError("a memtable has no blocks: ask startsPlainBlock first")
    case .table: unsafe try table.pointee.nextBlock()
    case .level: unsafe try level.pointee.nextBlock()
    }
  }
}

// MARK: - Merges of them

extension MergingIterator where Child == MergeSource {
  /// Creates a merge of everything that a family holds: memtables, and then tables.
  init(_ memtables: [MemTable], _ version: Version, _ opener: TableOpener) {
    self.init(
      capacity: memtables.count + version.levelZero.sublevels.count + Limits.levelCount)
    for memtable in memtables { append(memtable) }
    for sublevel in version.levelZero.sublevels { append(sublevel, opener) }
    for level in 1..<Limits.levelCount { append(version.run(level), opener) }
  }

  mutating func append(_ memtable: MemTable) { append(MergeSource(memtable.makeIterator())) }

  /// Appends the tables of a run, which are opened one by one when the scan reaches them. An empty run is skipped.
  mutating func append(_ run: SortedRun, _ opener: TableOpener) {
    if !run.isEmpty { append(MergeSource(LevelIterator(run, opener))) }
  }
}
