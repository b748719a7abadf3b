import VarveEngine

/// The progress of a load, from which `--resume` continues after a crash, a kill or a full disk.
///
/// The record is stored in the database, in a family of the tool's own, in the same batch as the entries that it
/// counts, so it always matches them. It is removed when the load is done. It contains a checksum of all the input
/// before its position, which a resumed load reads again: another input or a changed one is refused instead of being
/// loaded in part.
///
/// A separate file next to the input was rejected because it could not change atomically with the database.
struct LoadProgress: Codable {
  /// The state of a reader besides its byte position.
  struct ReaderState: Codable {
    var line: Int
    var family: String?
    var binaryCount: UInt64
  }

  /// The family of these records. `export` leaves it out.
  static let familyName = "varve.load"

  var position: UInt64
  var checksum: UInt64
  var entryCount: UInt64
  var reader: ReaderState

  /// Returns the key of the record of an input, which is the name that the input was given under.
  static func key(for file: String) -> [UInt8] { Array(file.utf8) }

  static func find(for file: String, in engine: Engine) throws -> LoadProgress? {
    guard let family = engine.families.first(where: { $0.name == familyName }) else { return nil }
    guard let bytes = try engine.get(key(for: file), in: family) else { return nil }
    guard let progress = try? JSONText.decode(LoadProgress.self, bytes) else {
      throw ToolError(
        .cannotOpen, "the record of the interrupted load can't be read; load without --resume", file: file)
    }
    return progress
  }

  /// Moves a source to the position at which the load stopped, and checks that its bytes up to there are unchanged.
  func skip(in source: ByteSource, file: String) throws {
    guard try source.skip(position), source.checksum == checksum else {
      throw ToolError(
        .cannotOpen,
        "the first \(position) bytes are not those of the load that was interrupted; load without --resume",
        file: file)
    }
  }

  /// Removes the record of a finished load, and the family with the last record.
  static func forget(_ file: String, in engine: Engine) throws {
    guard let family = engine.families.first(where: { $0.name == familyName }) else { return }
    try engine.delete(key(for: file), in: family)
    let isLast: Bool
    do {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      isLast = !cursor.isValid
    }
    if isLast { try engine.dropFamily(family) }
  }
}
