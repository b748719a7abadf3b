#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// The identity of an export: its source, range and form.
///
/// It is stored in `<file>.partial.json` beside `<file>.partial`, written before the first byte and removed after the
/// last. An export resumes only if it would write the same bytes.
struct ExportIdentity: Codable, Equatable {
  let database: String
  let sequence: UInt64
  let isBinary: Bool
  let family: String?
  let lower: [UInt8]?
  let upper: [UInt8]?
  let prefix: [UInt8]?

  static func path(for file: String) -> String { file + ".partial.json" }

  func write(for file: String) throws {
    do {
      let sink = try ByteSink(.file(Self.path(for: file)))
      try sink.write(try JSONText.bytes(self))
      try sink.finish()
    } catch let error as ToolError {
      throw ToolError(.cannotOpen, "the export can't be begun: \(error.message)", file: file)
    }
  }

  /// Returns the identity of an interrupted export, or `nil` if there is none that can be read.
  static func find(for file: String) -> ExportIdentity? {
    guard let data = try? Data(contentsOf: URL(filePath: path(for: file))) else { return nil }
    return try? JSONText.decode(ExportIdentity.self, data)
  }

  static func remove(for file: String) { try? FileManager.default.removeItem(at: URL(filePath: path(for: file))) }
}

/// The progress of an interrupted export: the end of its last whole record.
struct ExportPoint {
  /// The number of bytes up to that point; the bytes after it are cut off.
  private(set) var position: UInt64 = 0
  /// The number of entries before that point.
  private(set) var count: UInt64 = 0
  /// The family of the last record. `key` is its key if it was an entry.
  private(set) var family: String?
  private(set) var key: [UInt8]?

  /// Reads the output of an interrupted export.
  static func find(in partial: String, isBinary: Bool) throws -> ExportPoint {
    let source = try ByteSource(partial)
    var point = ExportPoint()
    try isBinary ? point.readRecords(source) : point.readLines(source)
    return point
  }

  private mutating func readLines(_ source: ByteSource) throws {
    var last: [UInt8]?
    while let line = try source.nextLine() {
      // A line without its newline was truncated.
      guard source.position == position + UInt64(line.count) + 1 else { break }
      position = source.position
      count += 1
      last = line
    }
    guard let last else { return }
    guard let record = try? JSONText.decode(EntryRecord.self, last), let bytes = try? record.keyBytes() else {
      throw ToolError(.cannotOpen, "the last line of the interrupted export is not an entry; export without --resume")
    }
    family = record.family
    key = bytes
  }

  private mutating func readRecords(_ source: ByteSource) throws {
    // Until the name of a family follows, nothing says in which one the export stopped: it begins at the begin.
    guard try source.next(BinaryStream.magic.count) == BinaryStream.magic else { return }
    while let kind = try source.next(1) {
      switch BinaryStream.Kind(rawValue: kind[0]) {
      case .family:
        guard let size = try Self.count(source), let name = try source.next(size) else { return }
        family = name.isEmpty ? nil : String(decoding: name, as: UTF8.self)
        key = nil
      case .entry:
        guard let keySize = try Self.count(source), let valueSize = try Self.count(source) else { return }
        guard let bytes = try source.next(keySize), try source.skip(UInt64(valueSize)) else { return }
        key = bytes
        count += 1
      case .options:
        // They are written again, with the entry that follows.
        guard let size = try Self.count(source), try source.skip(UInt64(size)) else { return }
        continue
      case .end, nil: return
      }
      position = source.position
    }
  }

  private static func count(_ source: ByteSource) throws -> Int? {
    try source.next(4).map { $0.reversed().reduce(0) { $0 << 8 | Int($1) } }
  }
}
