/// The result of a verification.
public struct VerificationReport: Sendable {
  /// A damaged part of a file.
  public struct Fault: Sendable, CustomStringConvertible {
    /// The file.
    public let file: String?
    /// The offset in the file, if known.
    public let offset: UInt64?
    /// The description of the fault.
    public let message: String

    /// The text `FILE:OFFSET: message`.
    public var description: String {
      (file ?? "database") + (offset.map { ":\($0)" } ?? "") + ": " + message
    }
  }

  /// All faults, in the order in which the files were verified.
  public internal(set) var faults: [Fault] = []
  /// Bytes of all files that were read.
  public internal(set) var bytesVerified: UInt64 = 0

  mutating func add(_ error: EngineError) {
    faults.append(Fault(file: error.file, offset: error.offset, message: error.message))
  }
}

/// The progress of a verification.
public struct VerificationProgress: Sendable, Hashable {
  /// Bytes of the files read so far.
  public var bytesDone: UInt64
  /// Bytes of all files to read.
  public var bytesTotal: UInt64
}

extension Engine {
  /// Reads every live file and checks every checksum, order and count in it.
  ///
  /// A file in the directory that does not belong to the database is also a fault.
  ///
  /// The report contains the damage; the call throws only errors that prevent files from being read. Reads and writes
  /// continue. The log is checked up to what was written when the call reached it.
  public func verify(
    progress: ((VerificationProgress) -> Void)? = nil
  ) throws(EngineError) -> VerificationReport {
    try core.requireOpen()
    return try core.verify(progress)
  }
}

extension EngineCore {
  /// The implementation of `Engine.verify`.
  fileprivate func verify(_ progress: ((VerificationProgress) -> Void)?) throws(EngineError) -> VerificationReport {
    var report = VerificationReport()
    let versions = registry.all.map { $0.state.retainView().version }
    let total = versions.reduce(0) { $0 + $1.totalSize }
    var named: Set<FileNumber>?
    for version in versions {
      for level in 0..<Limits.levelCount {
        for table in version.tables(level: level) {
          try verify(table, &named, &report)
          report.bytesVerified += table.fileSize
          progress?(VerificationProgress(bytesDone: report.bytesVerified, bytesTotal: total))
        }
      }
    }
    try verifyManifest(&report)
    try verifyLog(&report)
    try findUnknownFiles(&report)
    return report
  }

  /// Verifies a table.
  ///
  /// `named` are the tables of the MANIFEST as last read, or `nil` before the first missing table. The MANIFEST is read
  /// again only if a missing table is among them.
  private func verify(
    _ table: TableMetadata, _ named: inout Set<FileNumber>?, _ report: inout VerificationReport
  ) throws(EngineError) {
    do throws(EngineError) {
      // The file is opened separately, because an open reader's state in memory does not reflect the file.
      let file = try environment.fileSystem.openFile(tree.path(.table(table.number)), writable: false)
      defer { file.close() }
      let cache = BlockCache(capacity: 1 << 20)
      let reader = try TableReader.open(
        file: file, number: table.number, fileSize: table.fileSize, cache: cache, tableID: table.tableID)
      try reader.verify()
      try TableAgreement.check(try reader.properties(), table, file: file.path)
    } catch {
      if error.code == .notFound, options.readOnly {
        // The writing process may have replaced the table. Numbers are not reused.
        if named?.contains(table.number) ?? true { named = latestTables() }
        if named?.contains(table.number) == false { return }
      }
      report.add(try error.requireDamage())
    }
  }

  /// Returns the tables that the MANIFEST names now.
  private func latestTables() -> Set<FileNumber> {
    var numbers: Set<FileNumber> = []
    for family in latestState.families.values {
      for level in 0..<Limits.levelCount {
        for table in family.version.tables(level: level) { numbers.insert(table.number) }
      }
    }
    return numbers
  }

  /// Verifies CURRENT and the MANIFEST that it names, edit by edit.
  private func verifyManifest(_ report: inout VerificationReport) throws(EngineError) {
    do throws(EngineError) {
      let number = try Manifest.currentNumber(directory: path, fileSystem: environment.fileSystem)
      let file = try environment.fileSystem.openFile(tree.path(.manifest(number)), writable: false)
      defer { file.close() }
      let bytes = try Manifest.readAll(file)
      var reader = try ManifestReader(bytes.view, number: number, file: file.path)
      var replay = ManifestReplay(databaseID: reader.header.databaseID, file: file.path)
      while let record = try reader.next() { try replay.add(record) }
      _ = try replay.finish()
      report.bytesVerified += UInt64(bytes.count)
    } catch {
      guard error.code != .inputOutput, error.code != .notReadableNow else { throw error }
      // A roll in the meantime has removed the file. The new one was written and read by this engine.
      if error.code == .notFound, try hasManifest() { return }
      report.add(error)
    }
  }

  private func hasManifest() throws(EngineError) -> Bool {
    let number = try Manifest.currentNumber(directory: path, fileSystem: environment.fileSystem)
    return try environment.fileSystem.attributes(tree.path(.manifest(number))) != nil
  }

  /// The directory of `TaskInbox`.
  private static let inboxDirectory = "inbox"

  /// Reports files that are not the engine's, without changing them.
  ///
  /// The engine's own leftovers of a crash are not a fault; the next open for writing removes them.
  private func findUnknownFiles(_ report: inout VerificationReport) throws(EngineError) {
    for name in try environment.fileSystem.list(path).sorted() where FileName(name) == nil {
      // These are files moved away by a repair, and requests of other processes to the program that has the database
      // open.
      if name == LostDirectory.name || name == Self.inboxDirectory { continue }
      report.faults.append(
        .init(file: path + "/" + name, offset: nil, message: "the file is not one of the database's"))
    }
  }
}
