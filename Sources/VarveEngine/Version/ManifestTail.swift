/// Reads the MANIFEST that a running engine writes: first the whole file, then appended edits, and the whole file
/// again when CURRENT names another one.
///
/// An edit counts if a valid record follows it, which means that it was synced (`ManifestFormat`). The last edit of a
/// file may still be in progress and does not count yet. It is known to be durable only if files that it removes are
/// missing (`AcceptedEdits.lastEdit`).
///
/// Tables that were known before a new file was read keep their metadata, and with it their open readers. The value
/// belongs to one thread at a time.
struct ManifestTail {
  /// The edits of a file that count.
  enum AcceptedEdits {
    /// Edits that are followed by a mark or another record count.
    case marked
    /// The last edit counts as well.
    case lastEdit
  }

  private let directory: String
  private let fileSystem: any FileSystem
  /// The result of all edits so far.
  private(set) var state: ManifestState
  /// The current file, named by CURRENT.
  private(set) var number: FileNumber
  /// The number of changes of the state.
  private(set) var changeCount = 0
  private var file: any File
  private var fileID: UInt64
  private var identity: FileIdentity?
  /// The offset of the next edit.
  private var position: UInt64

  /// The maximum number of attempts to read a file. While an engine is busy, CURRENT changes often, but not this many
  /// times in a row.
  private static let attemptMaximum = 100

  /// Reads CURRENT and the file that it names. Throws like `Manifest.recover`.
  init(directory: String, fileSystem: any FileSystem) throws(EngineError) {
    self.directory = directory
    self.fileSystem = fileSystem
    let loaded = try Self.load(directory, fileSystem, known: nil)
    state = loaded.state
    number = loaded.number
    file = loaded.file
    fileID = loaded.fileID
    identity = loaded.identity
    position = loaded.position
  }

  /// Returns whether another file has the name of the file that is read: another database, or a copy of this one, was
  /// stored here.
  func isReplaced() throws(EngineError) -> Bool {
    guard let identity, let found = try fileSystem.attributes(file.path)?.identity else { return false }
    return found != identity
  }

  /// Reads new edits. Returns whether the state changed.
  ///
  /// Throws `.corruption` if durable bytes are damaged, and errors of the file system.
  mutating func poll(_ accepted: AcceptedEdits = .marked) throws(EngineError) -> Bool {
    let before = changeCount
    if try Manifest.currentNumber(directory: directory, fileSystem: fileSystem) != number {
      let loaded = try Self.load(directory, fileSystem, known: state)
      // A file that follows in the same history has a larger number.
      guard loaded.state.databaseID == state.databaseID, loaded.state.incarnation == state.incarnation,
        loaded.number > number
      else { throw Self.replaced(directory) }
      state = loaded.state
      number = loaded.number
      file.close()
      file = loaded.file
      fileID = loaded.fileID
      identity = loaded.identity
      position = loaded.position
      changeCount += 1
    }
    try readAppended(accepted)
    return changeCount != before
  }

  /// Returns the error of a reader whose database was replaced by other files.
  static func replaced(_ directory: String) -> EngineError {
    EngineError(
      .rewound, "the database that this follower reads was replaced by other files; close it and follow it again",
      file: directory)
  }

  // MARK: - The whole file

  private struct Loaded {
    let state: ManifestState
    let number: FileNumber
    let file: any File
    let fileID: UInt64
    let identity: FileIdentity?
    let position: UInt64
  }

  private static func load(
    _ directory: String, _ fileSystem: any FileSystem, known: ManifestState?
  ) throws(EngineError) -> Loaded {
    var attempt = 0
    while true {
      attempt += 1
      let number = try Manifest.currentNumber(directory: directory, fileSystem: fileSystem)
      let failure: EngineError
      do throws(EngineError) {
        return try load(number, directory, fileSystem, known: known)
      } catch { failure = error }
      // The file was rolled meanwhile, or was read during a write. A retry distinguishes the two.
      let isRolled = try Manifest.currentNumber(directory: directory, fileSystem: fileSystem) != number
      guard isRolled ? attempt < attemptMaximum : attempt < 3 else {
        guard failure.code == .notFound else { throw failure }
        throw .corruption("CURRENT names a MANIFEST that is not there", file: failure.file)
      }
    }
  }

  private static func load(
    _ number: FileNumber, _ directory: String, _ fileSystem: any FileSystem, known: ManifestState?
  ) throws(EngineError) -> Loaded {
    let path = directory + "/" + FileName.manifest(number).name
    // It is taken before the file is opened, so that a file that is replaced between the two counts as replaced.
    let identity = try fileSystem.attributes(path)?.identity
    let file = try fileSystem.openFile(path, writable: false)
    let bytes = try Manifest.readAll(file)
    var reader = try ManifestReader(bytes.view, number: number, file: path)
    var replay = ManifestReplay(databaseID: reader.header.databaseID, file: path)
    while var record = try reader.next() {
      if let known { record.edit.reuse(known) }
      try replay.add(record)
    }
    let position: UInt64
    switch reader.ending {
    case .marked(let offset), .torn(let offset): position = offset
    case nil: fatalError("a MANIFEST reader that ended says how")
    }
    return Loaded(
      state: try replay.finish(), number: number, file: file, fileID: reader.header.fileID, identity: identity,
      position: position)
  }

  // MARK: - Appended edits

  private mutating func readAppended(_ accepted: AcceptedEdits) throws(EngineError) {
    for attempt in 1...3 {
      let appended = try Appended(file, from: position, fileID: fileID)
      var offset = position
      while let (edit, end) = try appended.edit(at: offset) {
        guard accepted == .lastEdit || appended.hasRecord(at: end) else { return }
        try state.apply(edit)
        changeCount += 1
        position = end
        offset = end
      }
      guard let witness = appended.firstRecord(after: offset) else { return }
      // The record was read during a write, or is damaged. A retry distinguishes the two.
      guard attempt == 3 else { continue }
      throw .corruption(
        "a damaged MANIFEST record: the one at byte \(witness) was written after it was synced", file: file.path,
        offset: offset)
    }
  }

  /// The bytes of a MANIFEST from an offset on.
  private struct Appended: ~Copyable {
    private let bytes: ByteWriter
    private let start: UInt64
    private let fileID: UInt64
    private let path: String

    init(_ file: any File, from start: UInt64, fileID: UInt64) throws(EngineError) {
      let size = try file.size()
      let count = size > start ? Int(clamping: min(size - start, UInt64(ManifestFormat.payloadSizeMaximum))) : 0
      var bytes = ByteWriter(capacity: 0)
      try bytes.reserveOrThrow(count)
      var failure: EngineError?
      unsafe bytes.appendUninitialized(count) { buffer in
        do throws(EngineError) { return try unsafe file.read(into: buffer, at: start) } catch {
          failure = error
          return 0
        }
      }
      if let failure { throw failure }
      self.bytes = bytes
      self.start = start
      self.fileID = fileID
      path = file.path
    }

    /// Returns the complete edit at an offset of the file, and its end, or nil if there is none.
    func edit(at offset: UInt64) throws(EngineError) -> (edit: VersionEdit, end: UInt64)? {
      guard hasRecord(at: offset) else { return nil }
      let view = bytes.view
      let index = Int(offset - start)
      guard let kind = ManifestRecordKind(rawValue: view[index + 12]) else {
        throw EngineError(
          .unsupportedFormat, "a MANIFEST record of unknown kind \(view[index + 12]); a newer version wrote it",
          file: path, offset: offset)
      }
      let size = Int(view.load(index + 8, as: UInt32.self))
      let bodyStart = index + ManifestFormat.recordHeaderSize
      guard kind == .edit, size <= ManifestFormat.payloadSizeMaximum,
        ManifestFormat.paddedSize(size) <= view.count - bodyStart
      else { return nil }
      let body = view.slice(bodyStart, bodyStart + ManifestFormat.paddedSize(size))
      let checksum = CRC32C.extend(CRC32C.seed(fileID, offset), body)
      guard view.load(index + 4, as: UInt32.self) == checksum else { return nil }
      let edit = try VersionEdit(
        decoding: body.slice(0, size), file: path, fileOffset: offset + UInt64(ManifestFormat.recordHeaderSize))
      return (edit, offset + UInt64(ManifestFormat.recordHeaderSize + body.count))
    }

    /// Returns whether the header of a record of any kind is at an offset of the file.
    func hasRecord(at offset: UInt64) -> Bool {
      let view = bytes.view
      let size = ManifestFormat.recordHeaderSize
      guard offset >= start, offset - start <= UInt64(view.count), view.count - Int(offset - start) >= size else {
        return false
      }
      let index = Int(offset - start)
      let head = view.slice(index + 4, index + size)
      return view.load(index, as: UInt32.self) == CRC32C.extend(CRC32C.seed(fileID, offset), head)
    }

    func firstRecord(after offset: UInt64) -> UInt64? {
      var next = offset + UInt64(ManifestFormat.alignment)
      while next < start + UInt64(bytes.count) {
        if hasRecord(at: next) { return next }
        next += UInt64(ManifestFormat.alignment)
      }
      return nil
    }
  }
}

extension VersionEdit {
  /// Replaces metadata that equals known metadata by the known objects.
  fileprivate mutating func reuse(_ state: ManifestState) {
    for index in addedTables.indices {
      if let known = state.table(addedTables[index].table.number), known == addedTables[index].table {
        addedTables[index].table = known
      }
    }
  }
}
