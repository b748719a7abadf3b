/// The tables that a flush of one family writes.
///
/// If the family's base level has many tables, a flush is cut at their bounds: level 0 then consists of columns that
/// are compacted in parallel (`Version.flushSplitKeys`). A piece far smaller than a table is not worth a file.
///
/// # Safety
/// `builder` belongs to `current` and is released with it.
///
/// # Concurrency
/// Used by one job.
@safe
struct FlushOutput {
  private let family: FamilyState
  private let tableMaker: any TableMaker
  /// Keys before which the next piece begins, ascending, and the number of them already passed.
  private let cuts: [[UInt8]]
  private var nextCut = 0
  private let pieceSize: UInt64
  /// The maximum memory of a piece's filter.
  private let filterCharge: Int
  private let tombstones: CompactionTombstones
  /// The estimate of what the tombstones hide in the tables that the family has at the start.
  private let shadows: ShadowEstimate
  /// The lower bound of the next piece's keys, or `nil` for the first key.
  private var lower: [UInt8]?
  private var current: TableOutput?
  /// The builder of `current`, stored separately, so that an entry costs no retain.
  private var builder: Unmanaged<TableBuilder>?
  /// The tables of the whole flush.
  private let tables: FlushedTables

  init(
    _ input: FlushJob.Input, _ tableMaker: any TableMaker, _ tombstones: CompactionTombstones,
    into tables: FlushedTables
  ) {
    self.tables = tables
    self.tombstones = tombstones
    family = input.family.state
    self.tableMaker = tableMaker
    let picker = tableMaker.picker
    let version = family.version
    let base = picker.targets(.init(family: family.id, version: version)).baseLevel
    pieceSize = picker.options.targetFileSize
    shadows = ShadowEstimate(over: version, tableMaker.tree, openTableMaximum: tableMaker.plan.openTableCount)
    cuts = version.flushSplitKeys(baseLevel: base, targetSize: pieceSize)
    // The charge covers the filter's hashes: 8 bytes per key, in an array that doubles.
    filterCharge = 12 * input.frozen.reduce(0) { $0 + $1.table.entryCount }
  }

  /// Returns the builder for the next key, which is valid until the next call.
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

  /// Returns whether a cut lies before the key, and passes such cuts.
  private mutating func passesCut(_ userKey: ByteView) -> Bool {
    let before = nextCut
    while nextCut < cuts.count, cuts[nextCut].withByteView({ $0 <= userKey }) { nextCut += 1 }
    return nextCut > before
  }

  private mutating func begin() throws(EngineError) -> Unmanaged<TableBuilder> {
    let output = try TableOutput(tableMaker, family, level: 0, origin: .flush)
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
    let table = try output.write(shadows)
    current = nil
    tableMaker.metrics.counters.addFlushed(table.metadata.fileSize)
    try tables.add(table, family: family.id)
  }

  /// Writes the last table, if there are entries or range tombstones left to write.
  mutating func finish() throws(EngineError) {
    // Remaining range tombstones get their own table, if necessary.
    if current == nil, tombstones.hasAny(from: lower, to: nil) { _ = unsafe try begin() }
    try finishPiece(before: nil)
  }

  /// Discards an incomplete piece.
  mutating func discard() {
    unsafe builder = nil
    current?.discard()
    current = nil
  }
}
