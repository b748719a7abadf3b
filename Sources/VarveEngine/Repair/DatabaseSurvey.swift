/// The files in the directory of a damaged database, and the readable content of its MANIFEST.
///
/// A repair and a salvage begin with it. It does not write to any file.
struct DatabaseSurvey {
  let directory: String
  let fileSystem: any FileSystem
  private(set) var evidence = ManifestEvidence()
  /// The MANIFEST from which the evidence was read.
  private(set) var manifest: FileNumber?
  /// A Boolean value that indicates whether CURRENT names that MANIFEST.
  private(set) var hasCurrent = false
  /// The tables in the directory, with the size of each in bytes.
  private(set) var tables: [FileNumber: UInt64] = [:]
  /// The log segments in the directory, ascending.
  private(set) var logs: [FileNumber] = []
  private(set) var files: [FileName] = []
  /// The damage of CURRENT and the MANIFEST.
  private(set) var losses: [DamagedPart] = []

  /// Reads the directory and the MANIFEST.
  ///
  /// Throws `.notFound` and `.notADatabase` if no file of a database is there, and errors that prevent the directory
  /// from being listed.
  init(_ directory: String, _ fileSystem: any FileSystem) throws(EngineError) {
    self.directory = directory
    self.fileSystem = fileSystem
    guard let attributes = try fileSystem.attributes(directory) else {
      throw EngineError(.notFound, "no database exists here", file: directory)
    }
    guard attributes.isDirectory else {
      throw EngineError(.notADatabase, "a file exists here; expected a database directory", file: directory)
    }
    files = try fileSystem.list(directory).compactMap { FileName($0) }.sorted { $0.name < $1.name }
    guard files.contains(where: { $0 != .lock && $0 != .currentTemporary }) else {
      throw EngineError(.notADatabase, "the directory contains no file of a database", file: directory)
    }
    for file in files {
      switch file {
      case .table(let number): tables[number] = try fileSystem.attributes(path(file))?.size ?? 0
      case .log(let number): logs.append(number)
      default: break
      }
    }
    logs.sort()
    try readManifest()
  }

  func path(_ name: FileName) -> String { directory + "/" + name.name }

  /// The highest number of a file in the directory.
  var numberMaximum: FileNumber { files.compactMap(\.number).max() ?? FileNumber(0) }

  // MARK: - CURRENT and MANIFEST

  /// Reads the MANIFEST that CURRENT names, or otherwise the newest one of which any part can be read.
  private mutating func readManifest() throws(EngineError) {
    var named: FileNumber?
    do throws(EngineError) {
      named = try Manifest.currentNumber(directory: directory, fileSystem: fileSystem)
    } catch {
      let error = try error.requireDamage()
      add(DamagedPart(error.code == .notFound ? "the file is missing" : error.message, file: path(.current)))
    }
    var candidates: [FileNumber] = files.compactMap { if case .manifest(let number) = $0 { number } else { nil } }
    candidates.sort(by: >)
    if let named {
      if candidates.contains(named) {
        candidates = [named] + candidates.filter { $0 != named }
      } else {
        add(DamagedPart("it names \(FileName.manifest(named).name), which is missing", file: path(.current)))
        add(DamagedPart("the file is missing, and CURRENT names it", file: path(.manifest(named))))
      }
    } else if candidates.isEmpty {
      add(DamagedPart("MANIFEST is missing", file: directory))
    }
    for number in candidates {
      let found = try read(number)
      for part in found.parts {
        var lost = DamagedPart(part, file: path(.manifest(number)))
        lost.holdsEntries = false
        add(lost)
      }
      guard found.recordCount > 0 || found.state != nil else { continue }
      evidence = found
      manifest = number
      hasCurrent = number == named
      return
    }
  }

  private func read(_ number: FileNumber) throws(EngineError) -> ManifestEvidence {
    let path = path(.manifest(number))
    do throws(EngineError) {
      let file = try fileSystem.openFile(path, writable: false)
      defer { file.close() }
      let bytes = try Manifest.readAll(file)
      return ManifestEvidence(bytes.view, number: number, file: path)
    } catch {
      var none = ManifestEvidence()
      none.parts = [UnreadablePart(start: 0, end: 0, message: try error.requireDamage().message)]
      return none
    }
  }

  private mutating func add(_ lost: DamagedPart) {
    var lost = lost
    lost.holdsEntries = false
    losses.append(lost)
  }

  // MARK: - Tables

  /// A Boolean value that indicates whether the MANIFEST is authoritative about tables and the log, because no part of
  /// it is missing.
  ///
  /// After a power loss its last mark may be missing. It is then authoritative if the directory has no table that it
  /// doesn't know.
  var isSettled: Bool {
    if evidence.isComplete { return true }
    guard evidence.state != nil, evidence.parts.isEmpty else { return false }
    return tables.keys.allSatisfy { evidence.tables[$0] != nil || evidence.deletedTables.contains($0) }
  }

  /// The numbers of tables that may be live, ascending; some of the tables may be missing.
  ///
  /// They are the tables that the MANIFEST names and, if it may have lost edits, all others that it does not mark as
  /// obsolete.
  var candidateTables: [FileNumber] {
    var numbers = Set(evidence.tables.keys)
    if !isSettled { numbers.formUnion(tables.keys.filter { !evidence.deletedTables.contains($0) }) }
    return numbers.sorted()
  }

  // MARK: - The log

  /// The segments that may have entries which no table has, ascending.
  var candidateLogs: [FileNumber] { logs.filter { $0 >= evidence.oldestLog ?? FileNumber(0) } }

  /// Returns the facts that the MANIFEST and the headers of other segments state about each segment.
  func logHints() throws(EngineError) -> [FileNumber: LogSalvage.Hints] {
    var hints: [FileNumber: LogSalvage.Hints] = [:]
    for number in logs {
      guard let header = try logHeader(number), let predecessor = header.predecessor else { continue }
      // A header that was given up names an end that the segment has passed, so the later end is right.
      let known = hints[predecessor.number]?.end ?? 0
      hints[predecessor.number] = LogSalvage.Hints(
        lifeID: predecessor.lifeID, end: max(known, predecessor.end))
    }
    for (number, cut) in evidence.logCuts {
      hints[number] = LogSalvage.Hints(lifeID: cut.lifeID, end: cut.endOffset, isCut: true)
    }
    return hints
  }

  /// Returns the segments that the MANIFEST or a header names and that are not in the directory, ascending.
  func missingLogs(_ hints: [FileNumber: LogSalvage.Hints]) -> [FileNumber] {
    var named = Set(hints.keys)
    if let oldest = evidence.oldestLog { named.insert(oldest) }
    // Segments before the oldest known one were freed. If edits are lost, segments before the oldest existing one may
    // have been freed as well.
    guard let oldest = isSettled ? evidence.oldestLog : logs.first else { return [] }
    return named.filter { $0 >= oldest && !logs.contains($0) }.sorted()
  }

  private func logHeader(_ number: FileNumber) throws(EngineError) -> LogSegmentHeader? {
    do throws(EngineError) {
      let file = try fileSystem.openFile(path(.log(number)), writable: false)
      defer { file.close() }
      let block = try FileContents(reading: file, size: LogFormat.headerBlockSize)
      guard case .valid(let header, _) = try LogSegmentHeader.decode(block.view, number: number, file: file.path)
      else { return nil }
      return header
    } catch {
      _ = try error.requireDamage()
      return nil
    }
  }
}
