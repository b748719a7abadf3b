import EngineTestSupport
import VarveEngine

/// A cursor of the engine and its expected position.
final class HeldCursor {
  var cursor: EngineCursor
  /// The rows that the cursor should return, in order.
  private let rows: ArraySlice<ModelDatabase.Row>
  /// The index of the row that the cursor should be at, or `nil` if it should not be valid.
  private var position: Int?

  init(_ cursor: consuming EngineCursor, _ rows: ArraySlice<ModelDatabase.Row>) {
    self.cursor = cursor
    self.rows = rows
  }

  var isPlaced: Bool { position != nil }

  func seekToFirst() throws {
    try cursor.seekToFirst()
    position = rows.isEmpty ? nil : rows.startIndex
  }

  func seekToLast() throws {
    try cursor.seekToLast()
    position = rows.isEmpty ? nil : rows.endIndex - 1
  }

  func seek(_ key: [UInt8]) throws {
    try cursor.seek(key)
    let index = rows.partitioningIndex { !$0.key.lexicographicallyPrecedes(key) }
    position = index < rows.endIndex ? index : nil
  }

  func seekForPrevious(_ key: [UInt8]) throws {
    try cursor.seekForPrevious(key)
    let index = rows.partitioningIndex { key.lexicographicallyPrecedes($0.key) }
    position = index > rows.startIndex ? index - 1 : nil
  }

  /// Moves the cursor by one row. Requires: the cursor is at a row.
  func step(forward: Bool) throws {
    guard let position else { fatalError("a step needs a row to begin from: ask isPlaced first") }
    if forward { try cursor.next() } else { try cursor.previous() }
    let next = forward ? position + 1 : position - 1
    self.position = rows.indices.contains(next) ? next : nil
  }

  /// Returns a description of the difference between the cursor and its expected position, or `nil` if there is none.
  func mismatch() -> String? {
    guard let position else {
      return cursor.isValid ? "the cursor stands on \(brief(cursor.keyBytes)) instead of on no row" : nil
    }
    let row = rows[position]
    guard cursor.isValid else { return "the cursor stands on no row instead of on \(brief(row.key))" }
    let key = cursor.keyBytes
    if key != row.key { return "the cursor stands on \(brief(key)) instead of on \(brief(row.key))" }
    let value = cursor.valueBytes
    if value != row.value {
      return "the cursor shows \(brief(value)) at \(brief(key)) instead of \(brief(row.value))"
    }
    return nil
  }
}

/// Returns at most the first 24 bytes in hexadecimal digits, for a message.
func brief(_ bytes: [UInt8]?) -> String {
  guard let bytes else { return "nothing" }
  let digits = bytes.prefix(24).map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
  return bytes.count > 24 ? "[\(digits)... \(bytes.count) bytes]" : "[\(digits)]"
}
