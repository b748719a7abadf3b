import VarveEngine

/// Compares a database with its expected content. Each check throws at the first difference.
struct Checks {
  let engine: Engine

  /// Returns the number of batches that the database contains, according to its own mark, which is part of each batch.
  func batchCount() throws -> Int {
    let family = try engine.family(named: WriterSettings.marks)
    guard let bytes = try engine.get(WriterSettings.mark, in: family) else { return 0 }
    guard let count = Int(String(decoding: bytes, as: UTF8.self)) else {
      throw JobError("the mark of the batches is not a number")
    }
    return count
  }

  /// Compares every key by a read, and then all keys by a cursor: existing keys must have the value of the last write,
  /// the other keys must be absent, and there must be no further keys.
  func compare(_ model: Model) throws {
    let family = try engine.family(named: WriterSettings.writes)
    for index in 0..<model.keyCount {
      let found = try engine.get(Workload.key(index), in: family)
      guard found == model.value(index) else {
        throw JobError("get \(Self.text(Workload.key(index))): \(Self.difference(found, model.value(index)))")
      }
    }
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    for index in 0..<model.keyCount {
      guard let expected = model.value(index) else { continue }
      guard cursor.isValid else { throw JobError("the cursor ends before \(Self.text(Workload.key(index)))") }
      guard cursor.keyBytes == Workload.key(index) else {
        throw JobError("the cursor is at \(Self.text(cursor.keyBytes)), not \(Self.text(Workload.key(index)))")
      }
      guard cursor.valueBytes == expected else {
        let text = Self.difference(cursor.valueBytes, expected)
        throw JobError("the cursor at \(Self.text(Workload.key(index))): \(text)")
      }
      try cursor.next()
    }
    guard !cursor.isValid else {
      throw JobError("the cursor finds \(Self.text(cursor.keyBytes)), which must be absent")
    }
  }

  /// Returns the size in bytes of all live keys and values of every family, including the rows and the feed of the
  /// object database.
  func liveSize() throws -> UInt64 {
    var size = 0
    for family in engine.families {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      while cursor.isValid {
        size += cursor.key.byteCount + cursor.value.byteCount
        try cursor.next()
      }
    }
    return UInt64(size)
  }

  private static func difference(_ found: [UInt8]?, _ expected: [UInt8]?) -> String {
    "found \(found.map { "write \(writeNumber($0))" } ?? "nothing"), "
      + "expected \(expected.map { "write \(writeNumber($0))" } ?? "nothing")"
  }

  /// Returns the number that a generated value begins with.
  private static func writeNumber(_ value: [UInt8]) -> String {
    text(Array(value.prefix { $0 != 0x20 }.prefix(20)))
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
