/// A damaged block of a table, found by a compaction; see `EngineStatistics.damagedBlocks`.
///
/// The table stays out of compactions until `Engine.resume()` finds it intact, or `Engine.giveUp(_:)` rewrites it
/// without the unreadable parts. All other tables are compacted as before, and reads of other blocks continue.
public struct DamagedBlock: Sendable, Hashable, Codable, CustomStringConvertible {
  /// The name of the column family.
  public let family: String
  /// The number of the table's file.
  public let table: UInt64
  /// The level of the table.
  public let level: Int
  /// The path of the file.
  public let file: String
  /// The offset of the block, or `nil` if the file as a whole can't be read.
  public let offset: UInt64?
  /// The damage found.
  public let message: String

  /// The text `FILE:OFFSET: message; column family "f", level 6`.
  public var description: String {
    "\(file)\(offset.map { ":\($0)" } ?? ""): \(message); column family \"\(family)\", level \(level)"
  }
}

/// The unreadable parts of one table that `Engine.giveUp(_:)` gave up, and what they contained.
public struct GivenUpDamage: Sendable, Hashable, CustomStringConvertible {
  /// Bytes of the file that could not be read.
  public struct Part: Sendable, Hashable, CustomStringConvertible {
    /// The byte range in the file; for a block, that of its content and its trailer.
    public let offsets: Range<UInt64>
    /// The damage found there.
    public let message: String
    /// A Boolean value that indicates whether entries were there.
    ///
    /// It is false for an index, a filter or a footer, whose content is rebuilt from the entries.
    public let holdsEntries: Bool
    /// The lower bound of the entries that were there: the last readable key before the part, or the first key of the
    /// table.
    public let firstKey: [UInt8]
    /// The upper bound of the entries that were there: the first readable key after the part, or the last key of the
    /// table.
    public let lastKey: [UInt8]

    /// The text `bytes FROM-TO: message; keys from "a" to "b"`.
    public var description: String {
      let location = "bytes \(offsets.lowerBound)-\(offsets.upperBound): \(message)"
      guard holdsEntries else { return location + "; no entry was there" }
      return location + "; keys from \(Self.printable(firstKey)) to \(Self.printable(lastKey))"
    }

    private static func printable(_ key: [UInt8]) -> String { key.withByteView { $0.printable } }

    init(
      offsets: Range<UInt64>, message: String, holdsEntries: Bool, firstKey: [UInt8], lastKey: [UInt8]
    ) {
      self.offsets = offsets
      self.message = message
      self.holdsEntries = holdsEntries
      self.firstKey = firstKey
      self.lastKey = lastKey
    }
  }

  /// The name of the column family.
  public let family: String
  /// The file that was given up. It is removed once no reader needs it.
  public let file: String
  /// The unreadable parts, in the order of the file. The array is empty if everything could be read; no entry is lost
  /// then.
  public let parts: [Part]
  /// The number of entries in `parts`, tombstones included.
  public let entryCount: UInt64
  /// The number of tombstones among the entries.
  public let tombstoneCount: UInt64
  /// The number of lost range tombstones.
  public let rangeTombstoneCount: UInt64

  /// A Boolean value that indicates whether tombstones were lost, so that deleted keys may reappear.
  public var hadTombstones: Bool { tombstoneCount + rangeTombstoneCount > 0 }

  /// The text `FILE: 12 entries lost, 3 tombstones among them; ...`, with each part.
  public var description: String {
    guard !parts.isEmpty else { return "\(file): everything could be read, and no entry is lost" }
    let tombstones = tombstoneCount + rangeTombstoneCount
    let counts = "\(entryCount) entries lost, \(tombstones) tombstones among them"
    let warning = entryCount + rangeTombstoneCount > 0 ? "; older versions of keys there may show again" : ""
    return "\(file): \(counts)\(warning); " + parts.map(\.description).joined(separator: "; ")
  }

  init(
    family: String, file: String, parts: [Part], entryCount: UInt64, tombstoneCount: UInt64,
    rangeTombstoneCount: UInt64
  ) {
    self.family = family
    self.file = file
    self.parts = parts
    self.entryCount = entryCount
    self.tombstoneCount = tombstoneCount
    self.rangeTombstoneCount = rangeTombstoneCount
  }
}
