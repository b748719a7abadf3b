/// The tables that a flush of one family writes.
///
/// Where the family's base level has many tables, a flush is cut at their bounds: level 0 falls into
/// columns then, which are compacted side by side (`Version.flushSplitKeys`). A piece far smaller than a
/// table is not worth a file.
///
/// # Safety
/// `builder` is that of `current`, and goes with it.
///
/// # Concurrency
/// One job's.
@safe
struct FlushOutput {
  private let family: FamilyState
  private let background: any TableMaker
  /// Keys before which the next piece begins, ascending, and how many of them are behind.
  private let cuts: [[UInt8]]
  private var nextCut = 0
  private let pieceSize: UInt64
  /// What the filter of a piece comes to in memory at most.
  private let filterCharge: Int
  private let tombstones: CompactionTombstones
  /// Where the keys of the next piece begin; nil: with the first.
  private var lower: [UInt8]?
  private var current: TableOutput?
  /// Apart, so that an entry costs no reference.
  private var builder: Unmanaged<TableBuilder>?
  /// The tables of the whole flush.
  private let tables: FlushedTables

  init(
    _ input: FlushJob.Input, _ background: any TableMaker, _ tombstones: CompactionTombstones,
    into tables: FlushedTables
  ) {
    self.tables = tables
    self.tombstones = tombstones
    family = input.family.state
    self.background = background
    let picker = background.picker
    let version = family.version
    let base = picker.targets(.init(family: family.id, version: version)).baseLevel
    pieceSize = picker.options.targetFileSize
    cuts = version.flushSplitKeys(baseLevel: base, targetSize: pieceSize)
    // The filter's hashes: 8 bytes a key, in an array that doubles.
    filterCharge = 12 * input.frozen.reduce(0) { $0 + $1.table.entryCount }
  }

  /// The builder for a key that comes next. It lives until the next call.
  @inline(__always)
  mutating func builder(for userKey: ByteView) throws(EngineError) -> Unmanaged<TableBuilder> {
    let isAtCut = nextCut < cuts.count && passesCut(userKey)
    if let builder = unsafe builder {
      let takesMore = unsafe builder.withGuaranteed { builder in
        let size = builder.estimatedFileSize
        return !(isAtCut && size >= pieceSize / 8 || size >= pieceSize) || builder.endsWith(userKey)
      }
      if takesMore { return unsafe builder }
      try finishPiece(before: userKey.bytes)
    }
    return unsafe try begin()
  }

  /// Whether a cut lies before the key; those that do are behind then.
  private mutating func passesCut(_ userKey: ByteView) -> Bool {
    let before = nextCut
    while nextCut < cuts.count, cuts[nextCut].withByteView({ $0 <= userKey }) { nextCut += 1 }
    return nextCut > before
  }

  private mutating func begin() throws(EngineError) -> Unmanaged<TableBuilder> {
    let output = try TableOutput(background, family, level: 0, origin: .flush)
    tables.begin(output.number)
    output.updateCharge(expecting: filterCharge)
    current = output
    let borrowed = unsafe Unmanaged.passUnretained(output.builder)
    unsafe builder = borrowed
    return unsafe borrowed
  }

  /// Ends the piece, whose keys are all before `upper`, with the range tombstones up to there.
  private mutating func finishPiece(before upper: [UInt8]?) throws(EngineError) {
    guard let output = current else { return }
    tombstones.write(from: lower, to: upper, into: output.builder)
    lower = upper
    unsafe builder = nil
    let table = try output.write()
    current = nil
    background.metrics.counters.addFlushed(table.metadata.fileSize)
    try tables.add(table, family: family.id)
  }

  /// Writes the last table; none where nothing is left to write.
  mutating func finish() throws(EngineError) {
    // What is left of range tombstones gets a table of its own, if it has to.
    if current == nil, tombstones.hasAny(from: lower, to: nil) { _ = unsafe try begin() }
    try finishPiece(before: nil)
  }

  /// Gives up a piece that is not whole.
  mutating func discard() {
    unsafe builder = nil
    current?.discard()
    current = nil
  }
}
