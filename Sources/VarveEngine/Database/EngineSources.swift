/// How the iterators of this engine find and open their tables.
struct TableOpener {
  let tree: Tree
  let purpose: ReadPurpose
  /// Blocks whose entries are all newer are left out.
  var visible: SequenceNumber = .maximum
}

extension TableIterator: OpenableIterator {
  static func open(_ table: TableMetadata, _ opener: TableOpener) throws(EngineError) -> TableIterator {
    let reader = unsafe try opener.tree.reader(table).takeUnretainedValue()
    return reader.makeIterator(opener.purpose, visible: opener.visible)
  }
}

extension TableIterator: BlockSource {
  var startsPlainBlock: Bool {
    guard isAtBlockStart, let entry = blockEntry else { return false }
    return entry.tombstoneCount == 0 && entry.flags == 0
  }
}

/// A memtable has no stored blocks.
extension MemTableIterator: BlockSource {
  var startsPlainBlock: Bool { false }
  func blockEnds(before limit: InternalKey) -> Bool { false }
  mutating func nextBlock() { next() }
}

typealias TableLevelIterator = LevelIterator<TableIterator>

/// A child of a cursor's merge: a memtable, or the tables of one sorted run.
///
/// # Safety
/// Owner of the level's iterator, which is kept in place because it can't be copied.
@safe
struct CursorSource: InternalIterator, ~Copyable {
  private var memTable: MemTableIterator?
  private let level: UnsafeMutablePointer<TableLevelIterator>?

  init(_ table: MemTable) {
    memTable = table.makeIterator()
    unsafe level = nil
  }

  init(_ run: SortedRun, _ opener: TableOpener) {
    memTable = nil
    let memory = UnsafeMutablePointer<TableLevelIterator>.allocate(capacity: 1)
    unsafe memory.initialize(to: TableLevelIterator(run, opener))
    unsafe level = memory
  }

  deinit {
    guard let level = unsafe level else { return }
    unsafe level.deinitialize(count: 1)
    unsafe level.deallocate()
  }

  @inline(__always)
  var isValid: Bool {
    if let level = unsafe level { return unsafe level.pointee.isValid }
    return memTable.unsafelyPresent.isValid
  }
  @inline(__always)
  var userKey: ByteView {
    if let level = unsafe level { return unsafe level.pointee.userKey }
    return memTable.unsafelyPresent.userKey
  }
  @inline(__always)
  var trailer: Trailer {
    if let level = unsafe level { return unsafe level.pointee.trailer }
    return memTable.unsafelyPresent.trailer
  }
  @inline(__always)
  var value: ByteView {
    if let level = unsafe level { return unsafe level.pointee.value }
    return memTable.unsafelyPresent.value
  }

  mutating func seekToFirst() throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.seekToFirst() }
    memTable?.seekToFirst()
  }
  mutating func seekToLast() throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.seekToLast() }
    memTable?.seekToLast()
  }
  mutating func seek(_ target: InternalKey) throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.seek(target) }
    memTable?.seek(target)
  }
  mutating func seekBefore(_ target: InternalKey) throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.seekBefore(target) }
    memTable?.seekBefore(target)
  }
  @inline(__always)
  mutating func next() throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.next() }
    memTable?.next()
  }
  @inline(__always)
  mutating func previous() throws(EngineError) {
    if let level = unsafe level { return unsafe try level.pointee.previous() }
    memTable?.previous()
  }
}

extension Optional {
  /// The value, where the type's own rules say that there is one.
  @inline(__always)
  fileprivate var unsafelyPresent: Wrapped { unsafe unsafelyUnwrapped }
}

extension ReadView {
  /// All sources of the view, newest first.
  func merge(_ tree: Tree, at sequence: SequenceNumber) -> MergingIterator<CursorSource> {
    let runs = version.levelZero.sublevels.reversed() + (1..<Limits.levelCount).map { version.run($0) }
    let filled = runs.filter { !$0.isEmpty }
    var merge = MergingIterator<CursorSource>(capacity: 1 + frozen.count + filled.count)
    let opener = TableOpener(tree: tree, purpose: .user, visible: sequence)
    for table in [memTable] + frozen where table.entryCount > 0 { merge.append(CursorSource(table)) }
    for run in filled { merge.append(CursorSource(run, opener)) }
    return merge
  }
}
