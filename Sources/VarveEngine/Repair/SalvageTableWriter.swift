/// Writes the files that a repair creates: tables and an empty segment, under numbers that are not in use.
final class SalvageTableWriter {
  private let directory: String
  private let lost: LostDirectory
  private let options: EngineOptions
  private let environment: EngineEnvironment
  private var fileSystem: any FileSystem { environment.fileSystem }
  /// The number that the next file gets.
  private(set) var nextNumber: FileNumber

  init(
    _ survey: DatabaseSurvey, _ lost: LostDirectory, _ options: EngineOptions, _ environment: EngineEnvironment
  ) {
    directory = survey.directory
    self.lost = lost
    self.options = options
    self.environment = environment
    nextNumber = max(survey.evidence.nextFileNumber, FileNumber(survey.numberMaximum.value + 1))
  }

  private func path(_ name: FileName) -> String { directory + "/" + name.name }

  private func takeNumber() -> FileNumber {
    defer { nextNumber = FileNumber(nextNumber.value + 1) }
    return nextNumber
  }

  // MARK: - Tables

  /// A table that is being written. Its file is created with the first entry.
  final class Output {
    fileprivate var builder: TableBuilder?
    fileprivate var file: (any File)?
    fileprivate var number = FileNumber(0)
    fileprivate let begin: () throws(EngineError) -> (FileNumber, any File, TableBuilder)
    private var lastKey: [UInt8] = []
    private var lastTrailer = Trailer(word: 0)

    fileprivate init(_ begin: @escaping () throws(EngineError) -> (FileNumber, any File, TableBuilder)) {
      self.begin = begin
    }

    private func start() throws(EngineError) {
      guard builder == nil else { return }
      let (number, file, builder) = try begin()
      (self.number, self.file, self.builder) = (number, file, builder)
    }

    /// Adds range tombstones, once.
    func add(_ tombstones: RangeTombstoneList) throws(EngineError) {
      if tombstones.isEmpty { return }
      try start()
      for index in 0..<tombstones.count {
        builder?.addRangeTombstone(tombstones.start(index), tombstones.end(index), tombstones.sequences(index))
      }
    }

    /// Adds an entry if it sorts after the last one that was added, and skips it otherwise.
    ///
    /// `TableBuilder` stops the process at an entry out of order. A block that verifies can contain such entries: they
    /// were wrong before its checksum was computed, or a search for blocks found bytes that verify by chance.
    func add(_ key: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
      if builder.map({ $0.entryCount == 0 }) ?? true {
        try start()
      } else {
        let order = lastKey.withByteView { InternalKey($0, lastTrailer).compare(InternalKey(key, trailer)) }
        guard order < 0 else { return }
      }
      try builder?.add(key, trailer, value)
      lastKey = key.bytes
      lastTrailer = trailer
    }

    fileprivate var size: UInt64 { builder?.estimatedFileSize ?? 0 }
  }

  func begin(_ owner: SalvageOwner, _ families: SalvagedFamilies, level: Int) throws(EngineError) -> Output {
    var table = options.tableOptions(families.options(owner), level: level, origin: .flush)
    if case .family(let id) = owner { table.family = id }
    table.familyName = families.name(owner)
    table.familyOptions = families.encodedOptions(owner)
    return Output { [self] () throws(EngineError) in
      let number = takeNumber()
      let file = try fileSystem.createFile(try lost.workPath(.table(number)))
      return (number, file, TableBuilder(file: file, number: number, tableID: environment.random(), options: table))
    }
  }

  /// Syncs the table and gives it its name. Returns `nil` if it got no entry. The caller must sync the directory.
  func finish(_ output: Output) throws(EngineError) -> TableMetadata? {
    guard let builder = output.builder, let file = output.file else { return nil }
    let summary = try builder.finish()
    try file.sync()
    file.close()
    try fileSystem.rename(file.path, to: path(.table(output.number)))
    return TableMetadata(number: output.number, summary)
  }

  /// Merges all tables of a family into tables of the last level.
  ///
  /// For each key, the newest version is kept with all operands above it, and no tombstone.
  func merge(
    _ tables: [TableMetadata], _ owner: SalvageOwner, _ families: SalvagedFamilies
  ) throws(EngineError) -> [TableMetadata] {
    var merge = MergingIterator<MergeSource>(capacity: tables.count)
    var tombstones = RangeTombstoneMerge()
    // Of entries with equal sequences (for example zero), the one of the newest table comes first.
    for table in tables.sorted(by: { $0.number > $1.number }) {
      let file = try fileSystem.openFile(path(.table(table.number)), writable: false)
      let reader = try TableReader.open(
        file: file, number: table.number, fileSize: table.fileSize, cache: BlockCache(capacity: 1 << 20),
        tableID: table.tableID)
      tombstones.add(try reader.rangeTombstones())
      merge.append(MergeSource(reader.makeIterator(.compaction)))
    }
    let covering = tombstones.newestFragments()
    let sizeMaximum = try options.memoryPlan().tableSize
    var result: [TableMetadata] = []
    var output = try begin(owner, families, level: Limits.levelCount - 1)
    var state = MergeState()
    try merge.seekToFirst()
    while merge.isValid {
      let isNew = state.enter(merge.userKey)
      let cover = covering.sequence(covering: merge.userKey, at: .maximum)
      if state.keeps(merge.trailer, below: cover) {
        if isNew, output.size >= sizeMaximum {
          if let table = try finish(output) { result.append(table) }
          output = try begin(owner, families, level: Limits.levelCount - 1)
        }
        try output.add(merge.userKey, merge.trailer, merge.value)
      }
      try merge.next()
    }
    if let table = try finish(output) { result.append(table) }
    return result
  }

  /// Selects the versions of a key that a merge for the last level keeps.
  private struct MergeState: ~Copyable {
    private var key = ByteWriter()
    private var hasKey = false
    /// A Boolean value that indicates whether an older version is still needed.
    private var isOpen = false
    private var last = Trailer(word: 0)

    /// Notes the key of an entry. Returns true if it differs from the previous one.
    mutating func enter(_ next: ByteView) -> Bool {
      if hasKey, key.view == next { return false }
      key.removeAll()
      key.append(next)
      hasKey = true
      isOpen = true
      last = Trailer(word: .max)
      return true
    }

    /// Returns whether an entry of the key is kept. Entries come newest first. `cover` is the newest range tombstone
    /// over it.
    mutating func keeps(_ trailer: Trailer, below cover: SequenceNumber) -> Bool {
      guard isOpen, trailer != last else { return false }
      last = trailer
      isOpen = trailer.kind == .merge
      if cover > trailer.sequence {
        isOpen = false
        return false
      }
      return !trailer.isTombstone
    }
  }

  // MARK: - The log

  /// Writes a segment without records, like one that a clean close leaves, after which a repaired database begins its
  /// log.
  func makeEmptySegment(databaseID: UInt64) throws(EngineError) -> VersionEdit.LogCut {
    let number = takeNumber()
    let lifeID = environment.random()
    let header = LogSegmentHeader(
      number: number, lifeID: lifeID, predecessor: nil, capacity: UInt64(LogFormat.headerBlockSize),
      databaseID: databaseID)
    var bytes = ByteWriter(capacity: LogFormat.headerBlockSize)
    header.encode(into: &bytes)
    let file = try fileSystem.createFile(path(.log(number)))
    defer { file.close() }
    try unsafe file.write(bytes.view.buffer, at: 0)
    try file.sync()
    return .init(segment: number, lifeID: lifeID, endOffset: UInt64(LogFormat.headerBlockSize))
  }
}
