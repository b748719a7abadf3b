extension DatabaseSurvey {
  /// Returns the tables that are live as far as is known, missing and damaged ones included, and descriptions of the
  /// doubts about them.
  ///
  /// With `verifies`, every byte of them is checked.
  func liveTables(verifies: Bool) throws(EngineError) -> (tables: [DamagedTableReader], doubts: [String]) {
    var tables: [DamagedTableReader] = []
    for number in candidateTables {
      let table = try DamagedTableReader(number, self, verifies: verifies)
      // An edit that the MANIFEST lost may have deleted the table.
      if table.isMissing, !isSettled, isGone(number) { continue }
      if let family = table.family, evidence.isDropped(family) { continue }
      if table.isVolatile { continue }
      tables.append(table)
    }
    guard !isSettled else { return (tables, []) }
    let inputs = try ObsoleteInputs(tables, fileSystem)
    tables.removeAll { inputs.obsolete.contains($0.number) }
    var doubts = inputs.doubtful.map { number in
      "\(path(.table(number))): may be an input of a finished compaction; keys in it that were deleted or overwritten since then may have their old values again"
    }
    for table in tables where table.family == nil {
      doubts.append(
        "\(table.path): does not name its column family; it becomes a family of its own, in which keys that were deleted or overwritten in other files have their old values"
      )
    }
    if evidence.state == nil, !tables.isEmpty || !logs.isEmpty {
      doubts.append(
        "\(directory): the MANIFEST can't be read completely; column families that were dropped shortly before may exist again"
      )
    }
    return (tables, doubts)
  }

  /// Returns whether a missing table was probably removed as obsolete by an edit that is lost.
  ///
  /// Its number is then below one that only lost edits can have assigned.
  private func isGone(_ number: FileNumber) -> Bool {
    tables.keys.contains { $0 > number && evidence.tables[$0] == nil && !evidence.deletedTables.contains($0) }
  }
}
