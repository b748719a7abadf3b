@testable import VarveEngine

/// The target for a whole table.
enum TableTarget {
  /// The maximum number of steps of an iteration, because an index may name one block many times.
  private static let stepCountMaximum = 5_000

  static func read(_ input: ByteView) throws {
    let file = BytesFile(input, path: "000001.sst")
    let cache = BlockCache(capacity: 256 << 10)
    let table = try TableReader.open(
      file: file, number: FileNumber(1), fileSize: UInt64(input.count), cache: cache)
    var fault: EngineError?
    do throws(EngineError) {
      try table.verify()
    } catch {
      fault = error
    }
    // A table that fails verification is read nevertheless, as a program would that did not verify it.
    try attempt { () throws(EngineError) in _ = try table.properties() }
    try attempt { () throws(EngineError) in try TableDump.run(table) { _ in } }
    try scan(table, isIntact: fault == nil)
    if let fault { throw fault }
  }

  /// Runs a read, which may only throw the errors that damaged bytes may lead to.
  private static func attempt(_ body: () throws(EngineError) -> Void) throws {
    do throws(EngineError) {
      try body()
    } catch {
      try require(error.code == .corruption || error.code == .unsupportedFormat, "a read throws \(error)")
    }
  }

  private static func scan(_ table: TableReader, isIntact: Bool) throws {
    for purpose in [ReadPurpose.user, .compaction] {
      var count = 0
      try attempt { () throws(EngineError) in
        let iterator = table.makeIterator(purpose)
        try iterator.seekToFirst()
        while iterator.isValid, count < stepCountMaximum {
          count += 1
          _ = CRC32C.extend(CRC32C.checksum(iterator.userKey), iterator.value)
          try iterator.next()
        }
      }
      if isIntact, count < stepCountMaximum {
        let expected = try table.properties().entryCount
        try require(UInt64(count) == expected, "a scan shows \(count) entries of \(expected)")
      }
    }
    try attempt { () throws(EngineError) in
      let iterator = table.makeIterator(.user)
      try iterator.seekToLast()
      var count = 0
      while iterator.isValid, count < stepCountMaximum {
        count += 1
        _ = CRC32C.extend(CRC32C.checksum(iterator.userKey), iterator.value)
        try iterator.previous()
      }
    }
    try search(table, isIntact: isIntact)
  }

  private static func search(_ table: TableReader, isIntact: Bool) throws {
    var keys: [(key: [UInt8], trailer: Trailer)] = [([], Trailer(seek: .maximum)), ([0xff, 0xff], Trailer(word: 0))]
    try attempt { () throws(EngineError) in
      let iterator = table.makeIterator(.user)
      try iterator.seekToFirst()
      var count = 0
      while iterator.isValid, count < stepCountMaximum {
        if count % 61 == 0 { keys.append((iterator.userKey.bytes, iterator.trailer)) }
        count += 1
        try iterator.next()
      }
    }
    for (key, trailer) in keys {
      try attempt { () throws(EngineError) in
        try key.withByteView { (key) throws(EngineError) in
          let iterator = table.makeIterator(.user)
          try iterator.seek(InternalKey(key, trailer))
          try iterator.seekBefore(InternalKey(key, trailer))
        }
      }
    }
    for (key, trailer) in keys.dropFirst(2) {
      var found: Trailer?
      try attempt { () throws(EngineError) in
        found = try key.withByteView { (key) throws(EngineError) -> Trailer? in
          try table.get(key, hash: KeyHash.hash(key), at: trailer.sequence)?.trailer
        }
      }
      guard isIntact else { continue }
      try require(found?.sequence == trailer.sequence, "a get does not find \(key) at \(trailer.sequence)")
    }
  }
}
