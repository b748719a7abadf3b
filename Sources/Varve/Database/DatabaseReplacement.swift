internal import VarveEngine

/// Puts another database instead of a damaged one.
///
/// # Steps
/// 1. The new database is made in a directory beside: empty, or with what can be read of the damaged one.
/// 2. When all of it is durable, the directory gets the name `<path>.replacement`.
/// 3. The damaged database is renamed to `<path>.<n>.corrupt`, `n` the first number that is free.
/// 4. The replacement is renamed to the path.
///
/// Until step 3 the path is as it was: what fails, or a crash, has changed nothing, and the next open begins again. After
/// it, the next open that finds nothing at the path, and a replacement, takes step 4 (`finish`).
///
/// # Numbers
/// A caller that follows the changes has kept the number of a commit. What the largest was may be lost, so the new database
/// counts from one that the old can't have reached: the seconds since 1970 times 2²⁰. None has made a million commits in
/// each second since. Its feed says that it has nothing from before, so that everybody is notified of a gap.
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

  /// Runs `body` while no one else replaces this database, or ends what a crash has cut short. Throws `.locked` where
  /// someone does.
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

  /// Does it, and returns what the damaged database is called now.
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

  /// Ends what a crash has cut short between its two renames.
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

  /// Makes the new database, complete and durable, under the name of the replacement.
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

  /// Copies what can be read by way of a database of the engine.
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
      // Or the next open that finds nothing at the path would put it there.
      leftover("replacement").discard()
      throw error
    }
  }
}
