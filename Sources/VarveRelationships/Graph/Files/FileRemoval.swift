internal import Logging
internal import Synchronization
@_spi(Extensions) internal import Varve

/// The shared state of a domain in memory: the locations of its files, and the worker that removes them.
@_spi(Extensions) public final class RelationshipsShared: Sendable {
  let locations: FileLocations
  let retainingEdges = RetainingEdges()
  private let worker: DatabaseWorker
  private let handle: ExtensionHandle<Relationships>
  private let state = Mutex(State())

  private struct State {
    var isRunning = false
    var isAskedAgain = false
  }

  init(_ definition: Relationships, _ view: borrowing SharedView) throws {
    locations = try FileLocations(definition)
    worker = view.worker
    handle = definition.named(view.name)
  }

  /// Collects edges that an earlier program could not collect, on a thread of the database.
  func collectStale() {
    guard worker.isOfWriter else { return }
    worker.run { [self] database in StaleCollections(database, handle) { [worker] in worker.isStopping }.run() }
  }

  /// Removes the released files on a thread of the database. There is one run at a time; files that are released
  /// meanwhile are removed after it.
  func removeFiles() {
    guard worker.isOfWriter else { return }
    let begins = state.withLock { state in
      state.isAskedAgain = state.isRunning
      defer { state.isRunning = true }
      return !state.isRunning
    }
    guard begins else { return }
    let isStarted = worker.run { [self] database in
      repeat { FileRemoval(database, handle, locations) { [worker] in worker.isStopping }.run() } while shouldRepeat()
    }
    if !isStarted { state.withLock { $0 = State() } }
  }

  private func shouldRepeat() -> Bool {
    state.withLock { state in
      state.isRunning = state.isAskedAgain
      defer { state.isAskedAgain = false }
      return state.isRunning
    }
  }
}

/// Removes the files that commits have released.
///
/// ```
///  commit: record of the file ─▶ acknowledged ─▶ log durable to power up to that commit
///    ─▶ with the writer held: no edge leads there, it is the same file ─▶ renamed into a trash folder, record removed
///    ─▶ committed ─▶ unlinked
/// ```
/// So a file is only removed after its release can no longer be lost, and only if no edge leads to it again. A crash
/// after the renaming leaves the record, for which no file is found, and a file in the trash, which is emptied when the
/// database is opened.
struct FileRemoval {
  private let database: Database
  private let handle: ExtensionHandle<Relationships>
  private let locations: FileLocations

  private let isStopping: () -> Bool

  /// The steps of a removal that are completed.
  enum Step: CaseIterable {
    case read, synced, renamed, committed, unlinked, emptied
  }

  private func did(_ step: Step) throws { try handle.definition.removalStep?(step) }

  private static let logger = Logger(label: "varve.relationships")
  private static let batch = 256

  init(
    _ database: Database, _ handle: ExtensionHandle<Relationships>, _ locations: FileLocations,
    isStopping: @escaping () -> Bool
  ) {
    (self.database, self.handle, self.locations, self.isStopping) = (database, handle, locations, isStopping)
  }

  private struct Record {
    let end: [UInt8]
    let value: [UInt8]
  }

  func run() {
    var last: [UInt8] = []
    do {
      while !isStopping() {
        let records = try records(after: last)
        guard let end = records.last?.end else { break }
        try remove(records)
        last = end
      }
      emptyTrash()
      try did(.emptied)
    } catch {
      // The database is closed, or the storage fails: the records remain for the next open.
      Self.logger.debug("files are not removed now", metadata: ["reason": "\(error)"])
    }
  }

  /// Returns the next records, after waiting until their commits survive a loss of power.
  private func records(after last: [UInt8]) throws -> [Record] {
    // This holds the writer: the extension is registered by then, and every earlier commit is applied.
    let (records, version) = try database.write { tx in
      var records: [Record] = []
      try tx[handle].files.forEach(in: StorageRange(lower: last.isEmpty ? [] : last + [0])) { end, value in
        var (key, bytes): ([UInt8], [UInt8]) = ([], [])
        key.replace(with: end)
        bytes.replace(with: value)
        records.append(Record(end: key, value: bytes))
        return records.count < Self.batch
      }
      return (records, tx.version)
    }
    if records.isEmpty { return [] }
    try did(.read)
    try database.sync(through: version)
    try did(.synced)
    return records
  }

  private func remove(_ records: [Record]) throws {
    var trashed: [String] = []
    var reports: [FileReport] = []
    try database.write(label: "files of \(handle.name)") { tx in
      let graph = try tx[handle]
      // The lock is held while files are renamed, and nothing waits meanwhile.
      try locations.holding { isHeld in
        // The caller that holds the files starts their removal later.
        if isHeld { return }
        try remove(records, graph, &trashed, &reports)
      }
      try did(.renamed)
    }
    try did(.committed)
    for path in trashed { try? SystemFile.unlink(path) }
    try did(.unlinked)
    for report in reports { self.report(report) }
  }

  private func remove(
    _ records: [Record], _ graph: RelationshipsTransaction, _ trashed: inout [String], _ reports: inout [FileReport]
  ) throws {
    for record in records where try graph.files.get(record.end) == record.value {
      guard let (root, path) = EdgeFormat.fileLocation(record.end[...]) else {
        try graph.files.delete(record.end)
        continue
      }
      let isInUse = try graph.isInUse(record.end)
      let outcome = isInUse ? nil : moveAway(root, path, record, &trashed)
      if let outcome { reports.append(FileReport(root: root, path: path, outcome: outcome)) }
      switch outcome {
      case .rootMissing, .failed: break
      case .removed, .changed, .outsideOfRoot, nil: try graph.files.delete(record.end)
      }
    }
  }

  private func report(_ report: FileReport) {
    handle.definition.reported?(report)
    switch report.outcome {
    case .removed: Self.logger.debug("\(report)")
    case .changed, .outsideOfRoot, .rootMissing, .failed: Self.logger.warning("\(report)")
    }
  }

  /// Renames a file into the trash, or returns nil if it does not exist.
  private func moveAway(
    _ root: String, _ path: String, _ record: Record, _ trashed: inout [String]
  ) -> FileReport.Outcome? {
    switch locations.location(root, path) {
    case .rootMissing: return .rootMissing
    case .outsideOfRoot: return .outsideOfRoot
    case .at(let whole, let trash):
      do {
        // The identity of the file is not known.
        if record.value.isEmpty { return .changed }
        guard let identity = try SystemFile.identity(whole) else { return nil }
        guard identity == FileIdentity(record.value) else { return .changed }
        trashed.append(try Self.move(whole, to: trash))
        return .removed
      } catch {
        return .failed("\(error)")
      }
    }
  }

  /// Renames a file, and returns its new path.
  private static func move(_ path: String, to trash: [String]) throws -> String {
    var failure: any Error = SystemFile.Failure(code: 0, call: "rename \(path)")
    for directory in trash {
      do {
        try SystemFile.makeDirectory(directory)
        let target = "\(directory)/\(UInt64.random(in: .min ... .max))"
        try SystemFile.rename(path, to: target)
        return target
      } catch {
        // The directory is on another volume, or no file can be created in it.
        failure = error
      }
    }
    throw failure
  }

  /// Removes the files that a crash has left in the trash.
  private func emptyTrash() {
    for directory in locations.trashes {
      for name in SystemFile.names(directory) { try? SystemFile.unlink("\(directory)/\(name)") }
      SystemFile.removeDirectory(directory)
    }
  }
}
