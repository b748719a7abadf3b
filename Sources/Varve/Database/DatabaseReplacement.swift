internal import VarveEngine

/// Replaces a damaged database by another one.
///
/// # Steps
/// 1. The new database is created in a separate directory next to the damaged one: empty, or with the rows that can be
///    read.
/// 2. When all of it is durable, the directory is renamed to `<path>.replacement`.
/// 3. The damaged database is renamed to `<path>.<n>.corrupt`, where `n` is the first free number.
/// 4. The replacement is renamed to the path.
///
/// Until step 3 the path is unchanged: an error or a crash has changed nothing, and the next open begins again. After
/// step 3, the next open that finds no database at the path, but a replacement, performs step 4 (`finish`).
///
/// # Numbers
/// A caller that follows the changes has stored the version of a commit. The largest version may be lost, so the new
/// database counts from a number that the old one cannot have reached: the seconds since 1970 times 2²⁰. No database
/// has made a million commits in each second since. The new feed records that it has no earlier entries, so every
/// caller receives a gap.
struct DatabaseReplacement {
  let path: String
  let options: EngineOptions
  let clock: WallClock
  private let environment: EngineEnvironment
  private var fileSystem: any FileSystem { environment.fileSystem }
  private var replacement: String { path + ".replacement" }

  init(path: String, options: EngineOptions, clock: WallClock, environment: EngineEnvironment = .system) {
    self.environment = environment
    self.path = path
    self.options = options
    self.clock = clock
  }

  /// Runs `body` while no other process replaces this database or completes an interrupted replacement. Throws
  /// `.locked` if another process does.
  func exclusively<Result>(_ body: () throws -> Result) throws -> Result {
    let name = path + ".replacing"
    let lock: any FileLock
    do { lock = try fileSystem.lock(name) } catch { throw DatabaseError(error) }
    defer {
      try? fileSystem.remove(name)
      lock.release()
    }
    return try body()
  }

  /// Replaces the database, and returns the new path of the damaged one.
  func run(saves: Bool) throws -> String {
    do {
      try leftover("replacement").removeLeftover()
      try build(saves: saves)
      let aside = try moveAside()
      try fileSystem.syncDirectory(parent)
      try fileSystem.rename(replacement, to: path)
      try fileSystem.syncDirectory(parent)
      return aside
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  /// Completes a replacement that a crash interrupted between its two renames.
  func finish() throws {
    guard try isUnfinished else { return }
    try exclusively {
      guard try isUnfinished else { return }
      do throws(EngineError) {
        try fileSystem.rename(replacement, to: path)
        try fileSystem.syncDirectory(parent)
      } catch {
        throw DatabaseError(error)
      }
    }
  }

  private var isUnfinished: Bool {
    get throws {
      do throws(EngineError) {
        guard try fileSystem.attributes(path) == nil else { return false }
        return try fileSystem.attributes(replacement) != nil
      } catch {
        throw DatabaseError(error)
      }
    }
  }

  private var parent: String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private func leftover(_ suffix: String) -> DirectoryUnderConstruction {
    DirectoryUnderConstruction(path, purpose: "a salvage", suffix: suffix, fileSystem)
  }

  /// Creates the new database, complete and durable, under the name of the replacement.
  private func build(saves: Bool) throws {
    let location = DirectoryUnderConstruction(
      replacement, purpose: "a replacement", suffix: "unfinished", fileSystem)
    try location.prepare()
    do {
      try fill(location.workspace, saves: saves)
      try location.install()
    } catch {
      location.discard()
      throw error
    }
  }

  private func fill(_ directory: String, saves: Bool) throws {
    let base = UInt64(clock.seconds) << 20
    var options = options
    options.createIfMissing = true
    let target = try Engine.open(
      at: directory, options: options, countingFrom: SequenceNumber(base), environment: environment)
    do {
      let salvage = try ObjectSalvage(target, feedBase: base)
      if saves { try copy(into: salvage, options) }
      try target.flush()
    } catch {
      try? target.close()
      throw error
    }
    try target.close()
  }

  /// Copies what can be read, by way of an intermediate engine database.
  private func copy(into salvage: ObjectSalvage, _ options: EngineOptions) throws {
    let raw = leftover("salvage-raw")
    try raw.removeLeftover()
    try Engine.salvage(from: path, to: raw.workspace, options: options, environment: environment)
    defer { raw.discard() }
    let source = try Engine.open(at: raw.workspace, options: options, environment: environment)
    do {
      try salvage.run(source)
    } catch {
      try? source.close()
      throw error
    }
    try source.close()
  }

  private func moveAside() throws(EngineError) -> String {
    do throws(EngineError) {
      var number = 1
      while try fileSystem.attributes("\(path).\(number).corrupt") != nil { number += 1 }
      let aside = "\(path).\(number).corrupt"
      try fileSystem.rename(path, to: aside)
      return aside
    } catch {
      // Otherwise the next open that finds no database at the path would install the replacement.
      leftover("replacement").discard()
      throw error
    }
  }
}
