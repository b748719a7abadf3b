/// What is known of a table when it is complete: what a VersionEdit records of it.
struct TableSummary: Sendable {
  let fileSize: UInt64
  let tableID: UInt64
  let properties: TableProperties

  var entryCount: UInt64 { properties.entryCount }
  var tombstoneCount: UInt64 { properties.tombstoneCount }
  var rangeTombstoneCount: UInt64 { properties.rangeTombstoneCount }
  /// Bytes of keys and values, not packed.
  var rawSize: UInt64 { properties.keysSize + properties.valuesSize }
  /// The first user key; empty where there are no entries.
  var smallestKey: [UInt8] { properties.smallestKey }
  var smallestTrailer: Trailer { properties.smallestTrailer }
  /// The last user key.
  var largestKey: [UInt8] { properties.largestKey }
  var largestTrailer: Trailer { properties.largestTrailer }
  var smallestSequence: SequenceNumber { properties.smallestSequence }
  var largestSequence: SequenceNumber { properties.largestSequence }
}
