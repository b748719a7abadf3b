/// The statistics of an engine that has a database open for writing.
///
/// Any process can read them from the file `STATS` in the directory of the database.
///
/// ```swift
/// if let published = try PublishedStatistics.read(at: "/data/example.varve"), published.isRunning {
///   print(published.json)
/// }
/// ```
///
/// The engine writes the file about once a second while the statistics change, and removes it when it is closed. If a
/// killed process left the file, `isRunning` is false.
///
/// # Format
/// Little-endian. Not part of the database: none of it is needed, and the next open removes it.
///
///     offset   bytes
///     0        8      magic, "VARVSTAT"
///     8        4      version of this format, 1
///     12       4      CRC-32C of everything after it, up to the end of the text
///     16       8      number of writes; equal numbers mean equal text
///     24       8      process id
///     32       8      when the process began, as the system counts it; 0: not known
///     40       8      database id
///     48       8      the engine's clock when it was written
///     56       4      bytes of the text
///     60       4      zero
///     64       n      JSON, as `EngineStatistics.json`, with at most 64 families
///
/// One `pwrite` writes the whole file; a concurrent reader finds the checksum wrong and reads again. It is not written
/// through a mapping: on a full disk, or a copy-on-write file system, a store to a mapping kills the process.
public struct PublishedStatistics: Sendable {
  /// The process that has, or had, the database open.
  public let processID: UInt64
  /// A Boolean value that indicates whether the process still has the database open.
  ///
  /// If false, it ended without closing the database, and these are its last statistics.
  public let isRunning: Bool
  /// The number of published updates. Equal numbers from one process mean equal statistics.
  public let updateCount: UInt64
  /// The random number assigned to the database at its creation.
  public let databaseID: UInt64
  /// The engine's clock when the statistics were taken; on one machine, all processes share it.
  public let nanoseconds: UInt64
  /// The statistics: one object in one line, as `EngineStatistics.json`.
  public let json: String

  /// Returns the statistics that were last published for a database.
  ///
  /// Returns `nil` if no engine has it open for writing, or if that engine does not publish.
  ///
  /// Throws `.notFound` if no database exists at the path, `.corruption` for a damaged file, and `.unsupportedFormat`
  /// for a later version of the format.
  public static func read(
    at path: String, environment: EngineEnvironment = .system
  ) throws(EngineError) -> PublishedStatistics? {
    let fileSystem = environment.fileSystem
    guard try fileSystem.attributes(path + "/" + FileName.current.name) != nil else {
      throw EngineError(.notFound, "no database exists here: CURRENT is missing", file: path)
    }
    let name = path + "/" + FileName.statistics.name
    var attempt = 0
    while true {
      attempt += 1
      do throws(EngineError) {
        guard let page = try StatisticsPage(readingFrom: name, fileSystem) else { return nil }
        return PublishedStatistics(page, isRunning: try isRunning(page, path, fileSystem))
      } catch {
        guard error.code == .corruption, attempt < attemptMaximum else { throw error }
      }
    }
  }

  /// The maximum number of attempts to read. A write takes microseconds, and occurs once a second.
  private static let attemptMaximum = 100

  private init(_ page: StatisticsPage, isRunning: Bool) {
    processID = page.process.number
    self.isRunning = isRunning
    updateCount = page.updateCount
    databaseID = page.databaseID
    nanoseconds = page.nanoseconds
    json = page.json
  }

  /// Returns whether the process still has the database open.
  ///
  /// It may be in another container, where it is not visible, but its lock is. The lock is tried only if no process is
  /// visible, because an engine that is opening at that time would find it taken.
  private static func isRunning(
    _ page: StatisticsPage, _ path: String, _ fileSystem: any FileSystem
  ) throws(EngineError) -> Bool {
    if page.process.isAlive { return true }
    do throws(EngineError) {
      try fileSystem.lock(path + "/" + FileName.lock.name).release()
      return false
    } catch {
      if error.code == .locked { return true }
      // Without permission to take the lock this can't be determined: the process counts as ended.
      return false
    }
  }
}

/// The content of the file `STATS`: see `PublishedStatistics`.
struct StatisticsPage: Sendable, Equatable {
  static let magic: UInt64 = 0x5441_5453_5652_4156
  static let version: UInt32 = 1
  static let headerSize = 64
  /// The maximum size of the text; 64 families with all their levels take a quarter of it.
  static let textSizeMaximum = 1 << 20
  private static let checkedFrom = 16

  var updateCount: UInt64
  var process: ProcessIdentity
  var databaseID: UInt64
  var nanoseconds: UInt64
  var json: String

  /// Returns the content of the file.
  func encode() -> [UInt8] {
    let text = Array(json.utf8)
    var writer = ByteWriter(capacity: Self.headerSize + text.count)
    writer.append(integer: Self.magic)
    writer.append(integer: Self.version)
    writer.append(integer: UInt32(0))
    writer.append(integer: updateCount)
    writer.append(integer: process.number)
    writer.append(integer: process.start)
    writer.append(integer: databaseID)
    writer.append(integer: nanoseconds)
    writer.append(integer: UInt32(text.count))
    writer.append(integer: UInt32(0))
    writer.append(text)
    writer.patch(integer: CRC32C.extend(0, writer.view.dropFirst(Self.checkedFrom)), at: 12)
    return writer.view.bytes
  }
}

extension StatisticsPage {
  /// Reads the file. Returns `nil` if there is none, or if it is still empty.
  init?(readingFrom path: String, _ fileSystem: any FileSystem) throws(EngineError) {
    let file: any File
    do throws(EngineError) { file = try fileSystem.openFile(path, writable: false) } catch {
      if error.code == .notFound { return nil }
      throw error
    }
    defer { file.close() }
    let size = try file.size()
    guard size > 0 else { return nil }
    var bytes = [UInt8](repeating: 0, count: Int(min(size, UInt64(Self.headerSize + Self.textSizeMaximum))))
    let count = try file.read(into: &bytes, at: 0)
    bytes.removeLast(bytes.count - count)
    self = try bytes.withByteView { (view) throws(EngineError) in try StatisticsPage(decoding: view, path) }
  }

  init(decoding view: ByteView, _ path: String) throws(EngineError) {
    guard view.count >= Self.headerSize, view.load(0, as: UInt64.self) == Self.magic else {
      throw .corruption("not published statistics: wrong magic", file: path, offset: 0)
    }
    let version = view.load(8, as: UInt32.self)
    guard version == Self.version else {
      throw EngineError(
        .unsupportedFormat, "published statistics have format version \(version); expected \(Self.version)", file: path)
    }
    let size = Int(view.load(56, as: UInt32.self))
    guard size <= view.count - Self.headerSize,
      CRC32C.extend(0, view.slice(Self.checkedFrom, Self.headerSize + size)) == view.load(12, as: UInt32.self)
    else { throw .corruption("published statistics checksum mismatch", file: path, offset: 12) }
    updateCount = view.load(16, as: UInt64.self)
    process = ProcessIdentity(number: view.load(24, as: UInt64.self), start: view.load(32, as: UInt64.self))
    databaseID = view.load(40, as: UInt64.self)
    nanoseconds = view.load(48, as: UInt64.self)
    json = String(decoding: view.slice(Self.headerSize, Self.headerSize + size).bytes, as: UTF8.self)
  }
}
