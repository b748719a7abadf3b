import ArgumentParser
import Varve
import VarveEngine
import VarveInspection

/// Repairs a damaged database so that it can be opened.
struct RepairCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "repair",
    abstract: "Rebuild the MANIFEST of a damaged database from what is intact.",
    discussion: """
      The command changes the database itself and removes nothing: files that are replaced or can't be read are moved \
      into the directory "lost" of the database. It prints which tables are kept and exactly what is lost: the file, \
      the bytes, and the last readable key before and the first one after them. If something is lost or in doubt, the \
      exit status is 1. The counts, the extensions and the tasks of an object database are made consistent with what \
      is left, and wrong counts of entries are made again, also if nothing else is damaged. Copy the directory first, \
      if there is room: salvage reads more of a damaged copy than of a repaired one.

      Example: varve repair /data/example.varve
      """
  )

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var output: OutputOption

  func run() throws {
    try DatabaseOwner.assume(of: database.path)
    let report = try Engine.repair(at: database.path)
    // Without this, lost rows would still be part of counts, extensions and tasks.
    var failure: (any Error)?
    var recounted: [RecountedPart] = []
    do {
      if !report.losses.isEmpty {
        recounted = try Database.repairDamage(after: report.losses.map(\.family), at: database.path)
        if try Self.holdsObjects(database.path) { try TaskReading.makeConsistent(at: database.path) }
      } else if try hasWrongCounts() {
        recounted = try Database.recount(at: database.path)
      }
    } catch {
      // The report of what the engine has lost is printed first.
      failure = error
    }
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(Summary(report, recounted))
    } else {
      for table in report.tables {
        let count = Count.text(table.entryCount, "entry", plural: "entries")
        try sink.writeLine(
          "\(table.isNew ? "written" : "kept"): \(table.file): level \(table.level) of \"\(table.family)\", "
            + "\(count) from \(PrintableText.text(table.smallestKey)) to "
            + "\(PrintableText.text(table.largestKey)), commits \(table.sequences.lowerBound) to \(table.sequences.upperBound)"
        )
      }
      for file in report.movedAside { try sink.writeLine("moved aside: \(file)") }
      try SalvageText.write(report.losses, report.doubts, to: sink)
      for part in recounted {
        try sink.writeLine(
          PrintableText.text(
            "counted again: part \"\(part.part)\" of extension \"\(part.extensionName)\", "
              + "\(part.differenceCount) wrong counts"))
      }
      if report.isChanged {
        let tables = Count.text(report.tables.count, "table")
        let entries = Count.text(report.logEntriesRead, "entry", plural: "entries")
        try sink.writeLine("repaired up to commit \(report.lastSequence); \(tables), \(entries) of the log")
      } else {
        try sink.writeLine(recounted.isEmpty ? "nothing to repair" : "nothing else to repair")
      }
    }
    try sink.finish()
    if let failure { throw failure }
    guard report.isComplete else { throw ExitStatus.answerIsNo.asError }
  }

  /// Returns whether the counts of a database of objects are wrong. Nothing is written to find out.
  private func hasWrongCounts() throws -> Bool {
    guard try Self.holdsObjects(database.path) else { return false }
    do {
      return try database.inspecting { try $0.verifyCounts(limit: 0) { _ in } }.differenceCount > 0
    } catch let error as DatabaseError where error.code == .unsupportedVersion {
      // A newer version wrote the objects, and repairs them.
      return false
    }
  }

  /// Returns whether a database has the families of an object database.
  private static func holdsObjects(_ path: String) throws -> Bool {
    var options = EngineOptions()
    options.readOnly = true
    options.createIfMissing = false
    let engine = try Engine.open(at: path, options: options)
    let found = engine.families.contains { $0.name == "catalog" }
    try engine.close()
    return found
  }

  private struct Summary: Encodable {
    struct Table: Encodable {
      let file: String
      let family: String
      let level: Int
      let entryCount: UInt64
      let smallestKeyHex: String
      let largestKeyHex: String
      let smallestSequence: UInt64
      let largestSequence: UInt64
      let isNew: Bool
    }
    /// A counted part whose wrong counts were made again.
    struct Recounted: Encodable {
      let `extension`: String
      let part: String
      let counts: Int
    }
    let isChanged: Bool
    let isComplete: Bool
    let lastSequence: UInt64
    let logEntriesRead: UInt64
    let tables: [Table]
    let losses: [LossRow]
    let doubts: [String]
    let movedAside: [String]
    let recounted: [Recounted]

    init(_ report: RepairReport, _ recounted: [RecountedPart]) {
      isChanged = report.isChanged
      isComplete = report.isComplete
      lastSequence = report.lastSequence.value
      logEntriesRead = report.logEntriesRead
      tables = report.tables.map {
        Table(
          file: $0.file, family: $0.family, level: $0.level, entryCount: $0.entryCount,
          smallestKeyHex: HexText.text($0.smallestKey), largestKeyHex: HexText.text($0.largestKey),
          smallestSequence: $0.sequences.lowerBound.value, largestSequence: $0.sequences.upperBound.value,
          isNew: $0.isNew)
      }
      losses = report.losses.map { LossRow($0) }
      doubts = report.doubts
      movedAside = report.movedAside
      self.recounted = recounted.map {
        Recounted(extension: $0.extensionName, part: $0.part, counts: $0.differenceCount)
      }
    }
  }
}

/// Formats the report of repair and salvage about lost data.
enum SalvageText {
  static func write(_ losses: [DamagedPart], _ doubts: [String], to sink: ByteSink) throws {
    for loss in losses { try sink.writeLine("\(loss.holdsEntries ? "lost" : "damaged"): \(loss)") }
    for doubt in doubts { try sink.writeLine("in doubt: \(doubt)") }
  }
}

/// A part that can't be read, as `--json` prints it.
struct LossRow: Encodable {
  let file: String
  let offset: UInt64?
  let end: UInt64?
  let message: String
  let family: String?
  let keyBeforeHex: String?
  let keyAfterHex: String?
  let smallestSequence: UInt64?
  let largestSequence: UInt64?
  let holdsEntries: Bool

  init(_ loss: DamagedPart) {
    file = loss.file
    offset = loss.offsets?.lowerBound
    end = loss.offsets?.upperBound
    message = loss.message
    family = loss.family
    keyBeforeHex = loss.keyBefore.map { HexText.text($0) }
    keyAfterHex = loss.keyAfter.map { HexText.text($0) }
    smallestSequence = loss.sequences?.lowerBound.value
    largestSequence = loss.sequences?.upperBound.value
    holdsEntries = loss.holdsEntries
  }
}
