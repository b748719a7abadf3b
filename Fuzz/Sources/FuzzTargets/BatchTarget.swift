@testable import VarveEngine

/// The target for the payload of a batch.
enum BatchTarget {
  static func read(_ input: ByteView) throws {
    var reader = BatchReader(input, file: "log")
    var entries: [BatchReader.Entry] = []
    while let entry = try reader.next() { entries.append(entry) }
    try rewrite(entries)
  }

  /// Checks that the entries, written again, are read as the same entries.
  static func rewrite(_ entries: [BatchReader.Entry]) throws {
    var batch = WriteBatch(capacity: 0)
    var size = 0
    for entry in entries {
      do throws(EngineError) {
        try batch.append(entry.kind, entry.family, entry.key, entry.value)
      } catch {
        throw FuzzFailure("a batch does not take what was read from one: \(error)")
      }
      size += BatchFormat.entrySize(
        entry.kind, entry.family, keySize: entry.key.count, valueSize: entry.value.count)
    }
    try require(batch.count == entries.count, "a batch of \(batch.count) entries; \(entries.count) were added")
    try require(batch.byteCount == size, "a batch of \(batch.byteCount) bytes; its entries announced \(size)")
    var reader = BatchReader(batch.payload.view)
    for (index, entry) in entries.enumerated() {
      guard let copy = try again({ () throws(EngineError) in try reader.next() }) else {
        throw FuzzFailure("the batch ends before entry \(index)")
      }
      try require(isSame(entry, copy), "entry \(index) changed when it was written again")
    }
    if try again({ () throws(EngineError) in try reader.next() }) != nil {
      throw FuzzFailure("the batch has more entries than were added")
    }
  }

  static func isSame(_ left: BatchReader.Entry, _ right: BatchReader.Entry) -> Bool {
    left.kind == right.kind && left.family == right.family && left.key == right.key && left.value == right.value
  }
}

/// Runs a read of data that the engine has written, where an error is a failure.
func again<R>(_ body: () throws(EngineError) -> R) throws -> R {
  do throws(EngineError) {
    return try body()
  } catch {
    throw FuzzFailure("what was written again can't be read: \(error)")
  }
}
