/// The part of a verification that reads the log.
extension EngineCore {
  /// Verifies every segment, record by record, and that each continues the previous one.
  ///
  /// A read-only engine has the log as its recovery found it, so the recovery is repeated. A writing engine knows its
  /// segments, and the minimum ends of their records.
  func verifyLog(_ report: inout VerificationReport) throws(EngineError) {
    guard !options.readOnly else { return try verifyClosedLog(&report) }
    var previous: (number: FileNumber, location: LogSegmentHeader.Predecessor)?
    for (number, end) in pipeline.log.segmentEnds {
      do throws(EngineError) {
        let header = try verifySegment(number, end: end, &report)
        if let previous, header.predecessor != previous.location {
          throw .corruption(
            "the segment does not continue segment \(previous.number)", file: tree.path(.log(number)), offset: 32)
        }
        previous = (number, .init(number: number, lifeID: header.lifeID, end: UInt64(end)))
      } catch {
        previous = nil
        guard error.code != .inputOutput, error.code != .notReadableNow else { throw error }
        // The segment was released in the meantime, and its file may be another segment by now.
        if number >= pipeline.log.oldestNumber { report.add(error) }
      }
    }
  }

  private func verifySegment(
    _ number: FileNumber, end: Int, _ report: inout VerificationReport
  ) throws(EngineError) -> LogSegmentHeader {
    let name = tree.path(.log(number))
    let file = try environment.fileSystem.openFile(name, writable: false)
    defer { file.close() }
    guard var reader = try LogReader.open(file, number: number, name: name) else {
      throw .corruption("the log segment has no header of its own", file: name, offset: 0)
    }
    guard reader.isHeaderIntact else {
      throw .corruption("header block of the log segment is damaged", file: name, offset: 0)
    }
    while let record = reader.next() {
      var entries = LogEntryReader(record, file: name)
      while try entries.next() != nil {}
    }
    guard reader.offset >= end else {
      throw .corruption("a log record can't be read", file: name, offset: UInt64(reader.offset))
    }
    report.bytesVerified += UInt64(reader.offset)
    return reader.header
  }

  /// Verifies the log of a read-only engine.
  ///
  /// Another process may write the log meanwhile, free segments of it and reuse their files. So a fault counts only if
  /// a second check finds it as well, in the same segments according to the MANIFEST at that time.
  private func verifyClosedLog(_ report: inout VerificationReport) throws(EngineError) {
    var state = tree.state
    var last: EngineError?
    for _ in 0..<Self.lookMaximum {
      guard let error = try replayLog(of: state, &report) else { return }
      let latest = latestState
      if last?.description == error.description, latest.oldestLog == state.oldestLog { return report.add(error) }
      last = error
      state = latest
    }
    // A writer that is this busy reads its own log without errors.
  }

  private static var lookMaximum: Int { 100 }

  /// The current state of the MANIFEST. A MANIFEST that can't be read is a separate fault.
  var latestState: ManifestState {
    do throws(EngineError) {
      var tail = try ManifestTail(directory: path, fileSystem: environment.fileSystem)
      _ = try tail.poll(.lastEdit)
      return tail.state
    } catch {
      return tree.state
    }
  }

  /// Reads the log like a recovery. Returns the error of the damage found, or `nil` if there is none.
  private func replayLog(
    of state: ManifestState, _ report: inout VerificationReport
  ) throws(EngineError) -> EngineError? {
    guard state.oldestLog.value > 0 else { return nil }
    let numbers = try environment.fileSystem.list(path).compactMap { FileName($0)?.logNumber }
    let recovery = LogRecovery(
      directory: path, fileSystem: environment.fileSystem, numbers: numbers, oldest: state.oldestLog,
      cuts: state.recoveryCuts)
    do throws(EngineError) {
      let outcome = try recovery.replay { (record, segment) throws(EngineError) in
        var entries = LogEntryReader(record, file: recovery.path(segment))
        while try entries.next() != nil {}
      }
      for link in outcome.chain { report.bytesVerified += UInt64(link.end) }
      return nil
    } catch {
      guard error.code != .inputOutput, error.code != .notReadableNow else { throw error }
      return error
    }
  }
}
