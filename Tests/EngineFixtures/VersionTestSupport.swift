@testable import VarveEngine

/// Functions that create tables and edits from few arguments, for the suites of this folder and of `Compaction`.
enum Make {
  /// Creates a table with textual bounds; `excluded` makes the upper bound an excluded one.
  static func table(
    _ number: UInt64, _ smallest: String, _ largest: String, sequences: ClosedRange<UInt64> = 1...1,
    size: UInt64 = 1 << 20, excluded: Bool = false, entries: UInt64 = 1_000, tombstones: UInt64 = 0,
    shadowed: UInt64? = nil
  ) -> TableMetadata {
    table(
      number, [UInt8](smallest.utf8), [UInt8](largest.utf8), sequences: sequences, size: size, excluded: excluded,
      entries: entries, tombstones: tombstones, shadowed: shadowed)
  }

  static func table(
    _ number: UInt64, _ smallest: [UInt8], _ largest: [UInt8], sequences: ClosedRange<UInt64>,
    size: UInt64, excluded: Bool = false, entries: UInt64 = 1_000, tombstones: UInt64 = 0, shadowed: UInt64? = nil
  ) -> TableMetadata {
    smallest.withByteView { smallest in
      largest.withByteView { largest in
        TableMetadata(
          number: FileNumber(number), fileSize: size, tableID: number &* 0x9e37_79b9_7f4a_7c15,
          smallestKey: smallest, smallestTrailer: Trailer(SequenceNumber(sequences.upperBound), .put),
          largestKey: largest,
          largestTrailer: excluded
            ? TableMetadata.excludedTrailer : Trailer(SequenceNumber(sequences.lowerBound), .put),
          smallestSequence: SequenceNumber(sequences.lowerBound),
          largestSequence: SequenceNumber(sequences.upperBound),
          entryCount: entries, tombstoneCount: tombstones, rawSize: size * 2, shadowedSize: shadowed)
      }
    }
  }

  /// Creates a Version from the tables of each level.
  static func version(_ levels: [Int: [TableMetadata]]) throws -> Version {
    var builder = VersionBuilder(.empty)
    for (level, tables) in levels { for table in tables { try builder.add(table, level: level) } }
    return try builder.build()
  }

  static func bytes(_ edit: VersionEdit) -> [UInt8] {
    var writer = ByteWriter()
    edit.encode(appendingTo: &writer)
    return writer.bytes
  }
}

/// Returns the code of the error that `body` throws, or `nil` if it throws none.
func errorCode(_ body: () throws -> Void) -> EngineError.Code? {
  do { try body() } catch { return (error as? EngineError)?.code }
  return nil
}

extension String.UTF8View {
  /// Runs `body` with a view of the bytes.
  func withBytes<R, E: Error>(_ body: (ByteView) throws(E) -> R) throws(E) -> R {
    try [UInt8](self).withByteView(body)
  }
}
