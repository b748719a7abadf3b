import VarveEngine

/// The progress of a load, so that `--resume` continues there after a crash, a kill or a full disk.
///
/// The record lies in the database, in a family of the tool's own, and is part of the same batch as the
/// entries that it counts: it is never ahead of nor older than them. It is removed when the load is done. It holds
/// a checksum of all the input before its position, which a resumed load reads again: another input, or a
/// changed one, is refused and not half loaded.
///
/// A side file next to the input was rejected: it could not change atomically with the database.
struct LoadProgress: Codable {
  /// What a reader knows besides the byte that it stands at.
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

  /// One record for each input, by the name that it was given under.
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

  /// Brings a source to where the load stopped, and checks that it is the same up to there.
  func skip(in source: ByteSource, file: String) throws {
    guard try source.skip(position), source.checksum == checksum else {
      throw ToolError(
        .cannotOpen,
        "the first \(position) bytes are not those of the load that was interrupted; load without --resume",
        file: file)
    }
  }

  /// Forgets the record of a finished load, and the family with the last of them.
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
