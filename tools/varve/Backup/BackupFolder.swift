import Foundation
import VarveEngine

/// A folder with the backups of a database.
///
/// ```
/// FOLDER/LOCK                    locked while a command changes the folder
/// FOLDER/000001/database/        a backup: a database, made as a checkpoint
/// FOLDER/000001/backup.json      what it is a backup of (`BackupRecord`), one object in one line
/// FOLDER/000002.part/            one that is being made, restored from or removed, and does not count
/// ```
///
/// A directory that has neither is not of varve: it is not a backup whatever its name, and no command removes it, nor
/// one that has other files as well.
///
/// A backup appears by the rename of its complete directory, and disappears by the reverse one. Numbers have at least
/// six digits, only grow, and are the order of the backups: clocks can jump.
struct BackupFolder {
  /// One backup.
  struct Backup {
    let number: Int
    let path: String

    static let databaseName = "database"
    static let recordName = "backup.json"
    var databasePath: String { path + "/" + Self.databaseName }
    var recordPath: String { path + "/" + Self.recordName }
    /// What it is a backup of, or `nil` if the file is missing or damaged.
    var record: BackupRecord? {
      FileManager.default.contents(atPath: recordPath).flatMap { try? JSONText.decode(BackupRecord.self, $0) }
    }

    /// The bytes of all files of the database.
    var byteCount: UInt64 {
      let fileSystem = PosixFileSystem()
      return ((try? fileSystem.list(databasePath)) ?? []).reduce(0) { sum, name in
        sum + ((try? fileSystem.attributes(databasePath + "/" + name))?.size ?? 0)
      }
    }
  }

  let path: String
  private let fileSystem = PosixFileSystem()
  private static let lockName = "LOCK"
  private static let partSuffix = ".part"
  private static let digitCount = 6
  private static let numberMaximum = 999_999_999_999_999
  /// What the directory of a backup contains, complete or not.
  private static let ownNames: Set = [
    Backup.databaseName, Backup.databaseName + ".checkpoint", Backup.recordName,
    ByteSink.partialPath(Backup.recordName),
  ]

  init(_ path: String) {
    var path = path[...]
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    self.path = String(path)
  }

  /// Creates the folder if it does not exist; its parent must. Returns whether it did.
  ///
  /// Throws a usage error for a folder that is a database or is in one.
  func create() throws -> Bool {
    try requireNoDatabase()
    try DatabaseLocation.check(path, for: "a folder of backups")
    guard try fileSystem.attributes(path) == nil else { return false }
    try fileSystem.createDirectory(path)
    return true
  }

  private func requireNoDatabase() throws {
    guard DatabaseLocation.isDatabase(path) else { return }
    throw ToolError(.usage, "this is a database; backups are in a folder of their own", file: path)
  }

  /// Removes the folder, which a command has created, if no backup was made in it.
  func discard() {
    guard let names = try? fileSystem.list(path), names.allSatisfy({ $0 == Self.lockName }) else { return }
    for name in names { try? fileSystem.remove(path + "/" + name) }
    try? fileSystem.removeDirectory(path)
  }

  /// Calls `body` while no other command changes the folder, after it has removed what interrupted ones left.
  func locked<Result>(_ body: () throws -> Result) throws -> Result {
    _ = try names()
    let lock = try takeLock()
    defer { lock.release() }
    for name in try names() where Self.partNumber(name) != nil { try remove(path + "/" + name) }
    return try body()
  }

  private func takeLock() throws -> any FileLock {
    do { return try fileSystem.lock(path + "/" + Self.lockName) } catch {
      guard error.code == .locked else { throw error }
      throw ToolError(.cannotOpen, "another command changes the backups", file: path)
    }
  }

  /// The complete backups, the oldest first. Throws if the folder does not exist.
  func backups() throws -> [Backup] {
    try names().compactMap { name in Self.number(name).map { Backup(number: $0, path: path + "/" + name) } }
      .filter(isBackup).sorted { $0.number < $1.number }
  }

  /// Returns whether a directory with the name of a backup is one.
  private func isBackup(_ backup: Backup) throws -> Bool {
    guard try fileSystem.attributes(backup.path)?.isDirectory == true else { return false }
    return try [backup.databasePath, backup.recordPath].contains { try fileSystem.attributes($0) != nil }
  }

  /// The names in a directory that varve has not made, in order.
  private func foreignNames(_ path: String) throws -> [String] {
    try fileSystem.list(path).filter { !Self.ownNames.contains($0) }.sorted()
  }

  /// Returns the backup with a number, or the newest one. Throws if there is none.
  func backup(_ number: Int?) throws -> Backup {
    let backups = try backups()
    guard let number else {
      if let last = backups.last { return last }
      throw ToolError(.answerIsNo, "the folder has no backup", file: path)
    }
    if let found = backups.first(where: { $0.number == number }) { return found }
    throw ToolError(.answerIsNo, "the folder has no backup \(number)", file: path)
  }

  /// Makes the next backup of a database: `body` fills a directory that does not count yet. The folder must be locked.
  func add(of database: String, _ body: (Backup) throws -> BackupRecord) throws -> Backup {
    try requireNoBackup(ofOtherThan: database)
    // A name that is taken by something else is not the name of a backup either.
    let number = (try names().compactMap { Self.number($0) ?? Self.partNumber($0) }.max() ?? 0) + 1
    guard number <= Self.numberMaximum else { throw ToolError(.cannotOpen, "no number is left", file: path) }
    let final = path + "/" + Self.name(number)
    let part = Backup(number: number, path: final + Self.partSuffix)
    try fileSystem.createDirectory(part.path)
    do {
      let record = try body(part)
      let sink = try ByteSink(.file(part.recordPath))
      try sink.writeJSON(record)
      try sink.finish()
      try fileSystem.syncDirectory(part.path)
      try fileSystem.rename(part.path, to: final)
      try fileSystem.syncDirectory(path)
    } catch {
      // What can't be removed now is removed by the next command.
      try? remove(part.path)
      throw named(error, part)
    }
    return Backup(number: number, path: final)
  }

  /// Throws if the folder has backups of another database that still exists: a command that removes old backups, or
  /// restores the newest, would take those of one for those of the other.
  private func requireNoBackup(ofOtherThan database: String) throws {
    let own = RealPath.of(LiveDatabase.absolute(database))
    for backup in try backups() {
      guard let other = backup.record?.database, let found = RealPath.of(other), found != own,
        DatabaseLocation.isDatabase(found)
      else { continue }
      throw ToolError(
        .usage, "the folder has backups of another database, \"\(PrintableText.text(other))\": choose another folder",
        file: path)
    }
  }

  /// Returns an error with the folder, which the user knows, instead of a file of an incomplete backup.
  private func named(_ error: any Error, _ part: Backup) -> any Error {
    func isInside(_ file: String?) -> Bool {
      file.map { $0.hasPrefix(part.path) || $0.hasPrefix(LiveDatabase.absolute(part.path)) } ?? false
    }
    switch error {
    case let found as EngineError where isInside(found.file):
      return EngineError(found.code, found.message, cause: found.cause, file: path)
    case let found as ToolError where isInside(found.file): return ToolError(found.status, found.message, file: path)
    default: return error
    }
  }

  /// Removes all backups but the newest `count`, and returns those. The folder must be locked.
  ///
  /// A backup with files that varve has not made stays, and standard error says so.
  func prune(keeping count: Int) throws -> [Backup] {
    var removed: [Backup] = []
    for backup in try backups().dropLast(count) {
      if let name = try foreignNames(backup.path).first {
        StandardError.write(
          "varve: backup \(backup.number) stays, since varve has not made all that is in it: "
            + "\(PrintableText.text(backup.path + "/" + name))\n")
        continue
      }
      let part = backup.path + Self.partSuffix
      try fileSystem.rename(backup.path, to: part)
      try fileSystem.syncDirectory(path)
      try remove(part)
      removed.append(backup)
    }
    return removed
  }

  /// Removes the directory of an incomplete backup, unless varve has not made all that is in it.
  private func remove(_ path: String) throws {
    guard try fileSystem.attributes(path)?.isDirectory == true, try foreignNames(path).isEmpty else { return }
    do { try FileManager.default.removeItem(atPath: path) } catch {
      throw ToolError(.cannotOpen, "an incomplete backup can't be removed", file: path)
    }
  }

  private func names() throws -> [String] {
    try requireNoDatabase()
    return try fileSystem.list(path)
  }

  private static func name(_ number: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, digitCount - digits.utf8.count)) + digits
  }

  private static func number(_ name: String) -> Int? {
    guard let number = Int(name), 1...numberMaximum ~= number, self.name(number) == name else { return nil }
    return number
  }

  private static func partNumber(_ name: String) -> Int? {
    name.hasSuffix(partSuffix) ? number(String(name.dropLast(partSuffix.utf8.count))) : nil
  }
}

/// What a backup is a backup of: the content of `backup.json`. On disk: names never change.
struct BackupRecord: Codable {
  /// The number of the backup in its folder.
  let number: Int
  /// When it was made, in UTC.
  let created: String
  /// The absolute path of the database.
  let database: String
  /// The last commit in it.
  let sequence: UInt64
  let tablesLinked: Int
  let tablesCopied: Int
  let bytesCopied: UInt64

  init(_ number: Int, of database: String, _ report: CheckpointReport) {
    self.number = number
    created = Date().stamp
    self.database = database
    sequence = report.sequence.value
    tablesLinked = report.tablesLinked
    tablesCopied = report.tablesCopied
    bytesCopied = report.tableBytesCopied + report.logBytesCopied
  }
}
