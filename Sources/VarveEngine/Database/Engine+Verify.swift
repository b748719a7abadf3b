/// What a verification found.
public struct VerificationReport: Sendable {
  /// A place that is damaged.
  public struct Fault: Sendable, CustomStringConvertible {
    /// The file.
    public let file: String?
    /// The byte, where one can be named.
    public let offset: UInt64?
    /// What is wrong.
    public let message: String

    /// `FILE:OFFSET: message`.
    public var description: String {
      (file ?? "database") + (offset.map { ":\($0)" } ?? "") + ": " + message
    }
  }

  /// Every fault, by file.
  public internal(set) var faults: [Fault] = []
  /// Bytes of all files that were read.
  public internal(set) var bytesVerified: UInt64 = 0

  mutating func add(_ error: EngineError) {
    faults.append(Fault(file: error.file, offset: error.offset, message: error.message))
  }
}

/// How far a verification is.
public struct VerificationProgress: Sendable, Hashable {
  /// Bytes of the files read so far.
  public var bytesDone: UInt64
  /// Bytes of all files to read.
  public var bytesTotal: UInt64
}

extension Engine {
  /// Reads every live file and checks every checksum, order and count in it; files in the directory that
  /// nothing of the database names are faults, too.
  ///
  /// Damage is reported, not thrown; thrown is what keeps files from being read. Reads and writes go on
  /// meanwhile; of the log, what was written when the check came by is checked.
  public func verify(
    progress: ((VerificationProgress) -> Void)? = nil
  ) throws(EngineError) -> VerificationReport {
    checkOpen()
    var report = VerificationReport()
    let versions = families.map { $0.state.retainView().version }
    let total = versions.reduce(0) { $0 + $1.totalSize }
    for version in versions {
      for level in 0..<Limits.levelCount {
        for table in version.tables(level: level) {
          verify(table, &report)
          report.bytesVerified += table.fileSize
          progress?(VerificationProgress(bytesDone: report.bytesVerified, bytesTotal: total))
        }
      }
    }
    try verifyManifest(&report)
    try verifyLog(&report)
    try findStrangers(&report)
    return report
  }

  private func verify(_ table: TableMetadata, _ report: inout VerificationReport) {
    do throws(EngineError) {
      // Opened anew: what an open reader has in memory says nothing of the file.
      let file = try environment.fileSystem.openFile(tree.path(.table(table.number)), writable: false)
      defer { file.close() }
      let cache = BlockCache(capacity: 1 << 20)
      let reader = try TableReader.open(
        file: file, number: table.number, fileSize: table.fileSize, cache: cache, tableID: table.tableID)
      try reader.verify()
      try check(try reader.properties(), table, file.path)
    } catch {
      report.add(error)
    }
  }

  /// What the MANIFEST says of a table must be what the table says of itself.
  private func check(
    _ properties: TableProperties, _ table: TableMetadata, _ path: String
  ) throws(EngineError) {
    guard properties.entryCount == table.entryCount, properties.tombstoneCount == table.tombstoneCount,
      properties.smallestKey == table.smallestKey, properties.largestKey == table.largestKey,
      properties.smallestSequence == table.smallestSequence, properties.largestSequence == table.largestSequence
    else { throw .corruption("the table is not what the MANIFEST says of it", file: path) }
  }

  private func verifyManifest(_ report: inout VerificationReport) throws(EngineError) {
    do throws(EngineError) {
      try EngineInspector.dumpManifest(at: path, verify: true, environment: environment) { _ in }
    } catch {
      guard error.code == .corruption else { throw error }
      report.add(error)
    }
  }

  private func verifyLog(_ report: inout VerificationReport) throws(EngineError) {
    for case .log(let number) in try fileNames() where number >= tree.state.oldestLog {
      do throws(EngineError) {
        try EngineInspector.dumpLog(
          at: tree.path(.log(number)), verify: true, environment: environment) { _ in }
      } catch {
        guard error.code == .corruption else { continue }
        report.add(error)
      }
    }
  }

  private func fileNames() throws(EngineError) -> [FileName] {
    try environment.fileSystem.list(path).sorted().compactMap { FileName($0) }
  }

  /// Files that are not the engine's, or that no edit names: they are left alone, and listed.
  private func findStrangers(_ report: inout VerificationReport) throws(EngineError) {
    for name in try environment.fileSystem.list(path).sorted() where FileName(name) == nil {
      report.faults.append(
        .init(file: path + "/" + name, offset: nil, message: "the file is not one of the database's"))
    }
  }
}
