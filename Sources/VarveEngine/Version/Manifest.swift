internal import Synchronization

/// The log of VersionEdits, which recovery reads first. Each change of the durable state is written to it before the
/// change takes effect.
///
/// `append` writes one record and syncs it. The file is *rolled*, rewritten as one snapshot, when its edits outgrow its
/// snapshot, at a close after which the next open would have to apply more than a few edits, after any failure, and
/// after a recovery that found no mark at the end. The roll's steps, each durable before the next counts:
///
///  1. `MANIFEST-n` with header, snapshot and mark; synced.
///  2. The directory is synced: the name `MANIFEST-n` survives.
///  3. `CURRENT.tmp` with the name; synced.
///  4. `CURRENT.tmp` is renamed to `CURRENT`, and the directory is synced: from here the new file counts.
///  5. The old file is removed; if that fails it is an orphan that recovery removes.
///
/// # Invariants
/// 1. `state` is what a recovery of the files yields, apart from the tables of volatile families, and except while
///    `isInDoubt`.
/// 2. After a failed write or sync, nothing more is appended to the file.
///
/// # After a failure
/// If `append` or `roll` throws, `state` is unchanged. If `isInDoubt` is then true, a crash may still make the edit
/// count: files that the edit names, added and deleted ones, must be kept until a later call succeeds, which settles
/// that the edit does not count.
///
/// # Concurrency
/// `append`, `roll` and `close` are called by one thread at a time, and not concurrently with reads of `state`; the
/// owner ensures this. `allocateFileNumber` is safe from any thread. After `close` nothing is written.
final class Manifest: @unchecked Sendable {
  // Sendable: the mutable state is guarded by the protocol in "Concurrency"; the counter is atomic.
  private let directory: String
  private let fileSystem: any FileSystem
  private let random: @Sendable () -> UInt64
  private let nextFileNumber: Atomic<UInt64>

  /// The result of all edits so far.
  private(set) var state: ManifestState
  /// The current file, named by CURRENT.
  private(set) var number: FileNumber
  private var file: (any File)?
  /// Whether `close` was called: the directory may belong to another engine by now.
  private(set) var isClosed = false
  private var fileID: UInt64
  /// The offset of the next record.
  private var tail: UInt64
  private var snapshotSize: UInt64
  /// The size of the current file in bytes.
  var size: UInt64 { tail }

  /// Whether, and why, the next append must roll.
  private enum Health {
    case sound
    /// Recovery found no mark: it is unknown how much of the file is durable.
    case unmarked
    case failed
  }
  private var health: Health

  /// Files of rolls with an unknown outcome. They are removed once a later roll has succeeded.
  private var doubtedFiles: [FileNumber] = []
  /// Whether the outcome of a failed call is unknown; see "After a failure".
  private(set) var isInDoubt = false

  /// Edits are appended up to this many bytes, or the size of the snapshot if that is more: at least a few hundred
  /// edits, each of which is synced, so that the four syncs of a roll add less than two percent to their syncs. A roll
  /// at most doubles the bytes written, and recovery reads at most twice the state.
  static let editBytesMinimum: UInt64 = 64 << 10

  private init(
    directory: String, fileSystem: any FileSystem, random: @escaping @Sendable () -> UInt64, state: ManifestState,
    number: FileNumber
  ) {
    self.directory = directory
    self.fileSystem = fileSystem
    self.random = random
    self.state = state
    self.number = number
    nextFileNumber = Atomic(state.nextFileNumber.value)
    fileID = 0
    tail = 0
    snapshotSize = 0
    health = .unmarked
  }

  deinit { file?.close() }

  private func path(_ name: FileName) -> String { directory + "/" + name.name }

  // MARK: - File numbers

  /// Allocates an unused file number. It is allocated again only after a crash before the next edit was durable.
  func allocateFileNumber() -> FileNumber {
    FileNumber(nextFileNumber.wrappingAdd(1, ordering: .relaxed).oldValue)
  }

  /// Makes all later numbers larger than `number`: recovery calls it for every file in the directory.
  func reserveFileNumbers(through number: FileNumber) {
    _ = nextFileNumber.max(number.value + 1, ordering: .relaxed)
  }

  // MARK: - Create and recover

  /// Creates the first MANIFEST and CURRENT of a database in an existing directory.
  static func create(
    directory: String, fileSystem: any FileSystem, state: ManifestState, random: @escaping @Sendable () -> UInt64
  ) throws(EngineError) -> Manifest {
    let manifest = Manifest(
      directory: directory, fileSystem: fileSystem, random: random, state: state, number: FileNumber(0))
    // An interrupted creation leaves files without a CURRENT; their numbers are not reused.
    for name in try fileSystem.list(directory) {
      if let number = FileName(name)?.number { manifest.reserveFileNumbers(through: number) }
    }
    try manifest.roll()
    return manifest
  }

  /// Reads CURRENT and the MANIFEST that it names.
  ///
  /// Nothing is written: if `mustRoll` is true afterwards, the caller must roll before it does anything that relies
  /// on the state (removing files, reusing segments). The directory is synced, because an existing CURRENT may not
  /// survive a power loss yet, and the file that its predecessor names may be removed next.
  ///
  /// Throws `.notFound` if there is no CURRENT, or `.corruption` or `.unsupportedFormat` with the offset.
  static func recover(
    directory: String, fileSystem: any FileSystem, random: @escaping @Sendable () -> UInt64
  ) throws(EngineError) -> Manifest {
    let number = try currentNumber(directory: directory, fileSystem: fileSystem)
    try fileSystem.syncDirectory(directory)
    let path = directory + "/" + FileName.manifest(number).name
    guard try fileSystem.attributes(path) != nil else {
      throw .corruption("CURRENT names a MANIFEST that is not there", file: path)
    }
    let file = try fileSystem.openFile(path, writable: true)
    let bytes = try readAll(file)
    var reader = try ManifestReader(bytes.view, number: number, file: path)
    var replay = ManifestReplay(databaseID: reader.header.databaseID, file: path)
    while let record = try reader.next() { try replay.add(record) }
    let manifest = Manifest(
      directory: directory, fileSystem: fileSystem, random: random, state: try replay.finish(), number: number)
    manifest.file = file
    manifest.fileID = reader.header.fileID
    manifest.snapshotSize = replay.snapshotSize
    manifest.reserveFileNumbers(through: number)
    switch reader.ending {
    case .marked(let offset):
      manifest.tail = offset
      manifest.health = .sound
    case .torn(let offset):
      manifest.tail = offset
    case nil: fatalError("a MANIFEST reader that ended says how")
    }
    return manifest
  }

  /// Returns the durable state of another process, read-only: nothing is ever appended.
  static func following(
    directory: String, fileSystem: any FileSystem, state: ManifestState, number: FileNumber
  ) -> Manifest {
    Manifest(directory: directory, fileSystem: fileSystem, random: { 0 }, state: state, number: number)
  }

  /// Installs a later state of the other process.
  func follow(_ state: ManifestState) { self.state = state }

  /// Returns the number of the MANIFEST that CURRENT names.
  static func currentNumber(directory: String, fileSystem: any FileSystem) throws(EngineError) -> FileNumber {
    let path = directory + "/" + FileName.current.name
    let file = try fileSystem.openFile(path, writable: false)
    defer { file.close() }
    let bytes = try readAll(file).bytes
    guard let text = String(validating: bytes, as: UTF8.self), text.hasSuffix("\n"),
      case .manifest(let number) = FileName(String(text.dropLast()))
    else { throw .corruption("CURRENT does not hold the name of a MANIFEST and a newline", file: path, offset: 0) }
    return number
  }

  /// Returns all bytes of a file.
  static func readAll(_ file: any File) throws(EngineError) -> ByteWriter {
    let size = try file.size()
    guard size <= UInt64(ManifestFormat.payloadSizeMaximum) * 2 else {
      throw .corruption("a file of \(size) bytes where a small one is expected", file: file.path)
    }
    var writer = ByteWriter(capacity: 0)
    try writer.reserveOrThrow(Int(size))
    var failure: EngineError?
    unsafe writer.appendUninitialized(Int(size)) { buffer in
      do throws(EngineError) { return try unsafe file.read(into: buffer, at: 0) } catch {
        failure = error
        return 0
      }
    }
    if let failure { throw failure }
    return writer
  }

  // MARK: - Append

  /// Whether the next append writes a new file: because the edits outgrew the snapshot, after a failure, or after a
  /// recovery that found no mark.
  var mustRoll: Bool {
    guard case .sound = health else { return true }
    return tail - UInt64(ManifestFormat.headerSize) - snapshotSize > max(Self.editBytesMinimum, snapshotSize)
  }

  /// Makes an edit durable and part of `state`, together with the counter of file numbers.
  ///
  /// Changes to tables of volatile families are not written.
  ///
  /// Throws `.corruption` if the edit contradicts the state (a caller's mistake: nothing was written), `.closed` after
  /// `close`, otherwise the file system's error.
  func append(_ edit: VersionEdit) throws(EngineError) {
    try requireOpen()
    var edit = edit
    // An edit of volatile tables only writes nothing, unless the outcome of an earlier edit is unknown: the caller
    // takes a success to settle it.
    if case .sound = health, !edit.isEmpty, state.durablePart(of: edit).isEmpty { return try state.apply(edit) }
    edit.nextFileNumber = FileNumber(nextFileNumber.load(ordering: .relaxed))
    let prepared = try state.prepare(edit)
    if mustRoll {
      var next = state
      next.commit(prepared)
      try writeSnapshot(of: next)
      return
    }
    guard let file else { fatalError("a Manifest that was made to follow another process is appended to") }
    var payload = ByteWriter(capacity: 1 << 10)
    state.durablePart(of: edit).encode(appendingTo: &payload)
    guard payload.count <= ManifestFormat.payloadSizeMaximum else {
      throw EngineError(.limitExceeded, "a VersionEdit of \(payload.count) bytes")
    }
    var record = ByteWriter(capacity: payload.count + 64)
    ManifestFormat.encode(.edit, payload: payload.view, at: tail, fileID: fileID, appendingTo: &record)
    do throws(EngineError) {
      try unsafe file.write(record.view.buffer, at: tail)
      try file.sync()
    } catch {
      health = .failed
      isInDoubt = true
      throw error
    }
    tail += UInt64(record.count)
    state.commit(prepared)
    writeMark(file)
  }

  /// Marks everything before `tail` as synced. If the mark can't be written, the next append rolls.
  private func writeMark(_ file: any File) {
    var mark = ByteWriter(capacity: 64)
    ManifestFormat.encode(.mark, payload: ByteView(), at: tail, fileID: fileID, appendingTo: &mark)
    do throws(EngineError) { try unsafe file.write(mark.view.buffer, at: tail) } catch { health = .failed }
  }

  // MARK: - Roll

  /// Writes the state to a new file and makes it the current one.
  func roll() throws(EngineError) { try writeSnapshot(of: state) }

  /// The number of bytes of edits up to which a close does not roll: a page is read as fast as a part of it.
  private static let closingEditBytesMinimum: UInt64 = 4 << 10

  /// Rolls if the edits are more than a tenth of the snapshot, so that the next open has few edits to apply.
  ///
  /// For a close, after which nothing is appended. A roll that fails does not fail the close: both files have the
  /// same state then. Returns whether there is a new current file.
  func rollForClose() -> Bool {
    guard case .sound = health, file != nil, !isInDoubt else { return false }
    let editBytes = tail - UInt64(ManifestFormat.headerSize) - snapshotSize
    guard editBytes > max(Self.closingEditBytesMinimum, snapshotSize / 10) else { return false }
    do throws(EngineError) { try roll() } catch { return false }
    return true
  }

  private func requireOpen() throws(EngineError) {
    guard !isClosed else { throw EngineError(.closed, "the engine was closed", file: directory) }
  }

  private func writeSnapshot(of state: ManifestState) throws(EngineError) {
    try requireOpen()
    let newNumber = allocateFileNumber()
    var edit = state.snapshotEdit()
    edit.nextFileNumber = FileNumber(nextFileNumber.load(ordering: .relaxed))
    var next = state
    try next.apply(VersionEdit(nextFileNumber: edit.nextFileNumber))
    let header = ManifestFormat.Header(
      requiredFeatures: state.requiredFeatures, fileID: random(), databaseID: state.databaseID, number: newNumber)
    let newPath = path(.manifest(newNumber))
    let newFile = try fileSystem.createFile(newPath)
    let newSnapshotSize: UInt64
    do throws(EngineError) {
      newSnapshotSize = try Self.write(edit, header, to: newFile)
      try fileSystem.syncDirectory(directory)
      try writeCurrentTemporary(naming: newNumber)
    } catch {
      // CURRENT does not name the new file, so its content does not count.
      newFile.close()
      try? fileSystem.remove(newPath)
      throw error
    }
    do throws(EngineError) {
      try fileSystem.rename(path(.currentTemporary), to: path(.current))
      try fileSystem.syncDirectory(directory)
    } catch {
      // Recovery may find either file: both stay, and neither is appended to.
      newFile.close()
      doubtedFiles.append(newNumber)
      health = .failed
      isInDoubt = true
      throw error
    }
    replaceFile(newFile, header, newSnapshotSize, next)
  }

  /// The last step of a roll, which can't fail.
  private func replaceFile(
    _ newFile: any File, _ header: ManifestFormat.Header, _ newSnapshotSize: UInt64, _ next: ManifestState
  ) {
    let oldFile = file
    let oldPath = path(.manifest(number))
    file = newFile
    fileID = header.fileID
    number = header.number
    snapshotSize = newSnapshotSize
    tail = UInt64(ManifestFormat.headerSize) + newSnapshotSize
    state = next
    health = .sound
    isInDoubt = false
    if let oldFile {
      oldFile.close()
      try? fileSystem.remove(oldPath)
    }
    while let doubted = doubtedFiles.popLast() { try? fileSystem.remove(path(.manifest(doubted))) }
  }

  /// Writes header, snapshot and mark, and syncs. Returns the snapshot's size.
  private static func write(
    _ edit: VersionEdit, _ header: ManifestFormat.Header, to file: any File
  ) throws(EngineError) -> UInt64 {
    var payload = ByteWriter(capacity: 4 << 10)
    edit.encode(appendingTo: &payload)
    guard payload.count <= ManifestFormat.payloadSizeMaximum else {
      throw EngineError(.limitExceeded, "a snapshot of \(payload.count) bytes for the MANIFEST")
    }
    var bytes = ByteWriter(capacity: payload.count + 256)
    ManifestFormat.encode(header, appendingTo: &bytes)
    ManifestFormat.encode(
      .snapshot, payload: payload.view, at: UInt64(bytes.count), fileID: header.fileID, appendingTo: &bytes)
    let size = UInt64(bytes.count - ManifestFormat.headerSize)
    // The mark may be in the same write, because CURRENT names the file only after both were synced.
    ManifestFormat.encode(
      .mark, payload: ByteView(), at: UInt64(bytes.count), fileID: header.fileID, appendingTo: &bytes)
    try unsafe file.write(bytes.view.buffer, at: 0)
    try file.sync()
    return size
  }

  private func writeCurrentTemporary(naming number: FileNumber) throws(EngineError) {
    let temporary = path(.currentTemporary)
    if try fileSystem.attributes(temporary) != nil { try fileSystem.remove(temporary) }
    let file = try fileSystem.createFile(temporary)
    defer { file.close() }
    var text = ByteWriter(capacity: 64)
    text.append([UInt8]((FileName.manifest(number).name + "\n").utf8))
    try unsafe file.write(text.view.buffer, at: 0)
    try file.sync()
  }

  /// Syncs the mark, so that the next recovery can append there, and closes the file.
  func close() {
    isClosed = true
    guard let file else { return }
    if case .sound = health { try? file.sync() }
    file.close()
    self.file = nil
  }
}

/// Applies the records of one MANIFEST: all edits are folded, and each version is built once, at the end.
struct ManifestReplay {
  private var state: ManifestState?
  private let databaseID: UInt64
  private let file: String
  private(set) var snapshotSize: UInt64 = 0

  init(databaseID: UInt64, file: String) {
    self.databaseID = databaseID
    self.file = file
  }

  mutating func add(_ record: ManifestReader.Record) throws(EngineError) {
    do throws(EngineError) {
      switch record.kind {
      case .snapshot:
        let loaded = try ManifestState(folding: record.edit)
        guard loaded.databaseID == databaseID else { throw .corruption("header and snapshot are of two databases") }
        state = loaded
        snapshotSize = UInt64(record.size)
      case .edit, .mark: try state?.fold(record.edit)
      }
    } catch {
      throw EngineError(error.code, error.message, cause: error.cause, file: file, offset: record.offset)
    }
  }

  func finish() throws(EngineError) -> ManifestState {
    guard var state else { throw .corruption("the MANIFEST has no snapshot", file: file) }
    do throws(EngineError) { try state.buildVersions() } catch {
      throw EngineError(error.code, error.message, cause: error.cause, file: file, offset: error.offset)
    }
    return state
  }
}

extension VersionEdit {
  fileprivate init(nextFileNumber: FileNumber?) {
    self.init()
    self.nextFileNumber = nextFileNumber
  }
}
