import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// A database that an earlier build wrote, kept in the repository as `Tests/Golden/format-N`, and the script that
/// wrote it.
///
/// The same seed gives the same content in every build, so the content that a later build reads from the old files is
/// compared with the result of its own script.
///
/// # To add a format
/// 1. Add a case to `Format`, and, at the end of `run`, the operations that only that format supports (new kinds of
///   entries, for example), after a comparison with the format. The operations of an older format must never change.
/// 2. Write its directory once, and commit it:
///
///        VARVE_WRITE_GOLDEN=2 swift test --filter GoldenDatabaseTests
///
/// A directory that was committed is never written again: it stands for the build that wrote it.
struct GoldenDatabase {
  /// A format that has a directory.
  enum Format: Int, CaseIterable, Comparable, CustomStringConvertible {
    /// Tables of version 2, a log of version 2, VersionEdits of version 1: puts and deletes.
    case first = 1
    /// Tables with range tombstones, families with merge operators: single deletes, ranges, operands.
    case second = 2
    /// Tables that count their hidden entries, that estimate what their tombstones hide, and that have an index of
    /// their range tombstones.
    case third = 3

    static func < (left: Format, right: Format) -> Bool { left.rawValue < right.rawValue }
    var description: String { "format-\(rawValue)" }
  }

  let format: Format

  /// The path of the format's directory in the repository.
  var path: String {
    let file: String = #filePath
    let tests = file.split(separator: "/").dropLast(3).joined(separator: "/")
    return "/\(tests)/Golden/\(format)"
  }

  /// The format whose directory this run is to write, or `nil` if none.
  static var formatToWrite: Format? {
    // Safety: the environment is not changed while tests run.
    guard let text = unsafe getenv("VARVE_WRITE_GOLDEN"), let number = Int(unsafe String(cString: text)) else {
      return nil
    }
    return Format(rawValue: number)
  }

  // MARK: - The script

  /// An execution of the script on an engine, or only on the model.
  final class Run {
    fileprivate(set) var model = ModelDatabase()
    fileprivate var random: SeededRandom
    fileprivate var engine: Engine?
    /// A reader that keeps old versions in the tables until the files are copied.
    fileprivate var held: EngineSnapshot?
    private let reopen: (() throws -> Engine)?

    fileprivate init(seed: UInt64, reopen: (() throws -> Engine)?) throws {
      random = SeededRandom(seed: seed)
      self.reopen = reopen
      engine = try reopen?()
    }

    fileprivate func createFamily(
      _ name: String, _ compression: CompressionKind?, mergeOperator: String? = nil
    ) throws {
      model.createFamily(name)
      _ = try engine?.createFamily(
        name, options: FamilyOptions(compression: compression, mergeOperator: mergeOperator))
    }

    fileprivate func dropFamily(_ name: String) throws {
      model.dropFamily(name)
      if let engine { try engine.dropFamily(engine.family(named: name)) }
    }

    fileprivate func write(_ changes: [ModelDatabase.Change], _ durability: Durability = .process) throws {
      model.write(changes)
      guard let engine else { return }
      var batch = WriteBatch()
      for change in changes {
        switch change {
        case .put(let family, let key, let value): try batch.put(key, value, in: engine.family(named: family))
        case .delete(let family, let key): try batch.delete(key, in: engine.family(named: family))
        case .singleDelete(let family, let key): try batch.singleDelete(key, in: engine.family(named: family))
        case .deleteRange(let family, let lower, let upper):
          try batch.deleteRange(from: lower, to: upper, in: engine.family(named: family))
        case .merge(let family, let key, let operand, _):
          try batch.merge(key, operand, in: engine.family(named: family))
        }
      }
      try engine.write(batch, durability: durability)
    }

    fileprivate func closeAndReopen() throws {
      guard let reopen, let old = engine else { return }
      try old.close()
      engine = try reopen()
    }

    fileprivate func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(random.below(256)) } }
    /// Returns bytes that a codec can compress.
    fileprivate func text(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(97 + random.below(4)) } }
  }

  private static func key(_ index: Int) -> [UInt8] { Array("golden/\(10_000 + index)".utf8) }

  /// Returns the expected content of a database of this format.
  func expected() throws -> ModelDatabase.State {
    let run = try Run(seed: 20_260, reopen: nil)
    try perform(run)
    return run.model.state
  }

  /// Performs the operations of the first format: families with every codec, a dropped one, tables on level 0 and on
  /// the last one, overwritten and deleted keys, long and short ones, and records that are only in the log.
  private func perform(_ run: Run) throws {
    try run.createFamily("plain", CompressionKind.none)
    try run.createFamily("packed", .zstd)
    try run.createFamily("dropped", nil)
    if format >= .second { try run.createFamily("words", nil, mergeOperator: "varve.append") }
    try fill(run)
    if format >= .second { try addKinds(run) }
    if format >= .third { try addHidden(run) }
    try run.engine?.compact()
    try overwrite(run)
    if format >= .second { try addKinds(run) }
    try run.engine?.flush()
    try run.engine?.waitForCompaction()
    try run.dropFamily("dropped")
    try run.write([.put("default", Self.key(900), run.text(40)), .put("plain", Self.key(900), run.bytes(40))])
    // This record is in the segment after the cut of a recovery, and the next ones are in the segment after that.
    try run.closeAndReopen()
    try addLogged(run)
    if format >= .second { try addKinds(run) }
  }

  /// Performs the operations that the third format added: keys that are overwritten below a snapshot, and many range
  /// deletes.
  private func addHidden(_ run: Run) throws {
    run.held = run.engine?.snapshot()
    for index in stride(from: 0, to: 400, by: 3) { try run.write([.put("default", Self.key(index), run.text(50))]) }
    for index in 0..<700 {
      try run.write([.deleteRange("packed", Self.key(5_000 + 3 * index), Self.key(5_001 + 3 * index))])
    }
  }

  /// Performs the operations that the second format added: range deletes over tables and memtables, operands with and
  /// without a value below, and a put and its single delete.
  private func addKinds(_ run: Run) throws {
    let first = run.random.below(300)
    try run.write([.deleteRange("default", Self.key(first), Self.key(first + 20))])
    try run.write([.put("plain", Self.key(500), [1]), .put("default", Self.key(first + 3), run.text(10))])
    try run.write([.singleDelete("plain", Self.key(500)), .deleteRange("words", Self.key(4), Self.key(6))])
    for index in 0..<12 {
      try run.write([.merge("words", Self.key(index), run.text(4), .append)])
      if index % 5 == 0 { try run.write([.put("words", Self.key(index + 1), run.text(6))]) }
    }
  }

  private func fill(_ run: Run) throws {
    for index in 0..<400 {
      var changes: [ModelDatabase.Change] = [.put("default", Self.key(index), run.text(60 + run.random.below(60)))]
      if index % 2 == 0 { changes.append(.put("packed", Self.key(index), run.text(100))) }
      if index % 5 == 0 { changes.append(.put("plain", Self.key(index), run.bytes(30))) }
      if index % 9 == 0 { changes.append(.put("dropped", Self.key(index), run.bytes(8))) }
      try run.write(changes)
    }
    try run.write([.put("default", [], run.bytes(3)), .put("default", [0], []), .put("default", [0xff, 0xff], [1])])
    try run.write([.put("plain", run.bytes(2_000), run.bytes(3_000)), .put("plain", run.bytes(300), [])])
  }

  private func overwrite(_ run: Run) throws {
    for index in stride(from: 0, to: 400, by: 7) {
      try run.write([.put("default", Self.key(index), run.text(20)), .delete("packed", Self.key(index))])
      try run.write([.delete("default", Self.key(index + 1)), .put("plain", Self.key(index), run.bytes(12))])
    }
  }

  private func addLogged(_ run: Run) throws {
    for index in 0..<40 {
      let key = Self.key(index * 11)
      try run.write(
        [.put("default", key, run.text(30)), .put("packed", key, run.bytes(10)), .delete("plain", key)],
        index % 10 == 0 ? .power : .process)
    }
    try run.write([])
  }

  // MARK: - Files

  static func options(readOnly: Bool = false) -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 256 << 10
    options.logSegmentSize = 64 << 10
    options.blockSize = 1 << 10
    options.createIfMissing = !readOnly
    options.readOnly = readOnly
    return options
  }

  /// Returns the files that this build writes for the script, in the state after the death of a process.
  func make() throws -> DirectoryImage {
    let fileSystem = MemoryFileSystem()
    let environment = DirectoryImage.environment(fileSystem, seed: 11)
    let run = try Run(seed: 20_260) {
      try Engine.open(at: DirectoryImage.directory, options: Self.options(), environment: environment)
    }
    try perform(run)
    let image = try DirectoryImage(fileSystem)
    try run.engine?.close()
    return image
  }

  /// Returns the files in the repository.
  func read() throws -> DirectoryImage { try DirectoryImage(PosixFileSystem(), at: path) }

  /// Writes files to the repository, once.
  func write(_ image: DirectoryImage) throws {
    let fileSystem = PosixFileSystem()
    let parent = Opening.parent(of: path) ?? "/"
    if try fileSystem.attributes(parent) == nil { try fileSystem.createDirectory(parent) }
    try fileSystem.createDirectory(path)
    for (name, bytes) in image.files { try DirectoryImage.write(bytes, to: path + "/" + name, on: fileSystem) }
  }
}
