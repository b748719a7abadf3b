internal import Varve

/// The entries of views, as the module VarveViews writes them. The format is on disk and must never change.
///
/// ```
/// rows       group key, position key, row id 8 BE     -> collection 4 BE, row key
///            (a manual view: group key, position 8 BE)
/// places     collection 4 BE, row key                 -> varint size of the group, then the key in rows;
///                                                        or nothing: the row is in `unplaced`
/// unplaced   collection 4 BE, row key                 -> text of the error, UTF-8
/// ```
enum ViewFormat {
  static let autoKind = "varve.autoView"
  static let manualKind = "varve.manualView"
  static let rows = "rows"
  static let places = "places"
  static let unplaced = "unplaced"

  /// The size of the row id, or of the position, at the end of a key in `rows`.
  static let endSize = 8

  /// A value in `places`.
  enum Place: Hashable {
    /// The key in `rows`, which begins with a group of this size.
    case placed(key: [UInt8], groupSize: Int)
    case unplaced
    case damaged
  }

  static func place(_ bytes: [UInt8]) -> Place {
    if bytes.isEmpty { return .unplaced }
    var size: UInt64 = 0
    var offset = 0
    while true {
      guard offset < bytes.count, offset < 9 else { return .damaged }
      let byte = bytes[offset]
      size |= UInt64(byte & 0x7f) << UInt64(7 * offset)
      offset += 1
      if byte < 0x80 { break }
    }
    let key = Array(bytes[offset...])
    guard key.count >= endSize, size <= UInt64(key.count - endSize) else { return .damaged }
    return .placed(key: key, groupSize: Int(size))
  }
}
