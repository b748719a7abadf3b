import ArgumentParser
import Foundation
import VarveEngine

/// Makes, checks and restores backups of a database.
struct BackupCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "backup",
    abstract: "Make backups of a database, check them, and restore one.",
    discussion: """
      A backup is a complete database as of one commit, in a numbered directory of a folder. It is complete, or not \
      there. On the file system of the database its tables are hard links, which cost no space as long as the database \
      has them too, and which share their bytes with it: for protection against a failing disk, the folder is on \
      another one.

      Example: varve backup create /data/example.varve /backup/example --keep 14
      Example: varve backup verify /backup/example
      Example: varve backup restore /backup/example /data/restored.varve
      """,
    subcommands: [
      BackupCreateCommand.self, BackupListCommand.self, BackupVerifyCommand.self, BackupRestoreCommand.self,
      BackupPruneCommand.self,
    ])
}

/// The folder that the commands of backups work on.
struct BackupFolderArgument: ParsableArguments {
  @Argument(help: ArgumentHelp("The folder of the backups.", valueName: "folder"), completion: .directory)
  var path: String

  var folder: BackupFolder { BackupFolder(path) }
}

struct BackupCreateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "create",
    abstract: "Make a backup of a database, which may be in use.",
    discussion: """
      If a process has the database open, it makes the backup, and the command waits for it. The folder must then be in \
      the directory that contains the database or below it, or one that the program of that process names \
      (DatabaseOptions.backupFolders). The folder is created if its parent exists; it is not the database, nor in it.

      With --keep the oldest backups are removed once the new one is complete. What varve has not made is not removed: \
      a directory without a backup, whatever its name, and a backup to which other files were added.

      Example: varve backup create /data/example.varve /backup/example --keep 14
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var target: BackupFolderArgument
  @Option(help: "Remove all backups but the newest so many, at least 1.") var keep: Int?
  @OptionGroup var patience: PatienceOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let keep, keep < 1 { throw ValidationError("--keep is at least 1") }
  }

  func run() throws {
    let folder = target.folder
    // A folder is not created for a database that does not exist.
    guard try PosixFileSystem().attributes(database.path + "/CURRENT") != nil else {
      throw EngineError(.notFound, "no database exists here", file: database.path)
    }
    try DatabaseOwner.assume(of: database.path)
    let isNew = try folder.create()
    let (backup, removed): (BackupFolder.Backup, [BackupFolder.Backup])
    do {
      (backup, removed) = try folder.locked { try make(in: folder) }
    } catch {
      if isNew { folder.discard() }
      throw error
    }
    let row = BackupRow(backup)
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(row)
    } else {
      try sink.writeLine("backup \(row.number): \(row.path), everything up to commit \(row.sequence ?? 0)")
      for old in removed { try sink.writeLine("removed backup \(old.number)") }
    }
    try sink.finish()
  }

  /// Makes a backup in the folder, which is locked, and removes those that are not to be kept.
  private func make(in folder: BackupFolder) throws -> (BackupFolder.Backup, [BackupFolder.Backup]) {
    let live = LiveDatabase(database: database, patience: patience)
    let backup = try folder.add(of: database.path) { part in
      BackupRecord(part.number, of: LiveDatabase.absolute(database.path), try live.checkpoint(to: part.databasePath))
    }
    return (backup, try keep.map { try folder.prune(keeping: $0) } ?? [])
  }
}

struct BackupListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List the backups of a folder, the oldest first.",
    discussion: "Example: varve backup list /backup/example")

  @OptionGroup var source: BackupFolderArgument
  @OptionGroup var output: OutputOption

  func run() throws {
    let rows = try source.folder.backups().map { BackupRow($0) }
    let sink = try ByteSink.standardOutput()
    if output.json {
      for row in rows { try sink.writeJSON(row) }
    } else if !rows.isEmpty {
      let table = [["backup", "made", "commit", "size", "database"]] + rows.map(\.columns)
      for line in TextTable.lines(table) { try sink.writeLine(line) }
    }
    try sink.finish()
  }
}

struct BackupPruneCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "prune", abstract: "Remove all backups but the newest ones.",
    discussion: """
      What varve has not made is not removed: a directory without a backup, whatever its name, and a backup to which \
      other files were added.

      Example: varve backup prune /backup/example --keep 14
      """)

  @OptionGroup var source: BackupFolderArgument
  @Option(help: "Keep the newest so many, at least 1.") var keep: Int
  @OptionGroup var output: OutputOption

  func validate() throws {
    if keep < 1 { throw ValidationError("--keep is at least 1") }
  }

  func run() throws {
    let folder = source.folder
    try DatabaseOwner.assume(of: folder.path)
    let removed = try folder.locked { try folder.prune(keeping: keep) }
    let sink = try ByteSink.standardOutput()
    if output.json {
      try sink.writeJSON(["removed": removed.map(\.number)])
    } else {
      try sink.writeLine("removed \(Count.text(removed.count, "backup"))")
    }
    try sink.finish()
  }
}

/// A backup, as the commands print it.
struct BackupRow: Encodable {
  let number: Int
  let path: String
  /// The bytes of the files, also of those that are hard links.
  let bytes: UInt64
  /// Members that are `nil` are unknown, because `backup.json` is missing or damaged.
  let created: String?
  let database: String?
  let sequence: UInt64?
  let tablesLinked: Int?
  let tablesCopied: Int?
  let bytesCopied: UInt64?

  init(_ backup: BackupFolder.Backup) {
    let record = backup.record
    number = backup.number
    path = backup.path
    bytes = backup.byteCount
    created = record?.created
    database = record?.database
    sequence = record?.sequence
    tablesLinked = record?.tablesLinked
    tablesCopied = record?.tablesCopied
    bytesCopied = record?.bytesCopied
  }

  var columns: [String] {
    [
      "\(number)", created.map { PrintableText.text($0) } ?? "?", sequence.map { "\($0)" } ?? "?",
      SizeText.text(bytes), database.map { PrintableText.text($0) } ?? "?",
    ]
  }
}
