internal import Varve

/// The entry of a row in the part `rows` of a view, and its coding in the part `places`.
///
/// # Format
/// ```
/// rows       group key, position key, row id 8 BE     -> collection 4 BE, row key
///            (ManualView: group key, position 8 BE)
/// places     collection 4 BE, row key                 -> varint size of the group, then the key in rows;
///                                                        or nothing: the row is in `unplaced`
/// unplaced   collection 4 BE, row key                 -> text of the error, UTF-8
/// ```
/// Neither a row id nor a position in a manual view begins with the byte 0xff, so the keys of a group are those from
/// its encoding up to its encoding and 0xff (`KeyRange`). The format is stored on disk and must never change.
struct ViewEntry: Hashable {
  /// The value in `places`: the size of the group, and the key in `rows`.
  let place: [UInt8]
  /// Where the key begins in `place`.
  private let keyStart: Int
  /// The size of the group at the beginning of the key.
  let groupSize: Int

  /// Creates an entry from a key in `rows`.
  init(key: [UInt8], groupSize: Int) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(key.count + 2)
    bytes.append(varint: groupSize)
    keyStart = bytes.count
    bytes.append(contentsOf: key)
    place = bytes
    self.groupSize = groupSize
  }

  /// Creates an entry from a free byte and a key in `rows`. If the size of the group fits into the byte, nothing is
  /// copied.
  init(freeByteAndKey bytes: inout [UInt8], groupSize: Int) {
    guard groupSize < 0x80 else {
      self.init(key: Array(bytes[1...]), groupSize: groupSize)
      return
    }
    bytes[0] = UInt8(groupSize)
    self.init(place: bytes, keyStart: 1, groupSize: groupSize)
  }

  private init(place: [UInt8], keyStart: Int, groupSize: Int) {
    self.place = place
    self.keyStart = keyStart
    self.groupSize = groupSize
  }

  /// Reads an entry from a value in `places`, or returns `nil` for a row that is in `unplaced`. Throws `.corruption`.
  init?(place bytes: [UInt8]) throws {
    if bytes.isEmpty { return nil }
    var size: UInt = 0
    var offset = 0
    repeat {
      guard offset < bytes.count, offset < 9 else { throw Self.damaged("the size of a group does not end") }
      size |= UInt(bytes[offset] & 0x7f) << (7 * UInt(offset))
      offset += 1
    } while bytes[offset - 1] >= 0x80
    guard size <= UInt(bytes.count - offset), bytes.count - offset - Int(size) >= 8 else {
      throw Self.damaged("a group of \(size) bytes is in a key of \(bytes.count - offset)")
    }
    place = bytes
    keyStart = offset
    groupSize = Int(size)
  }

  /// A copy of the key in `rows`.
  var key: [UInt8] { Array(place[keyStart...]) }

  /// Calls `body` with the key in `rows`, which it may not keep.
  @inline(__always)
  func withKey<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
    // Safety: the span is used within the call.
    try body(unsafe place.span.bytes.extracting(droppingFirst: keyStart))
  }

  /// The encoding of the group.
  var group: [UInt8] { Array(place[keyStart..<(keyStart + groupSize)]) }

  static func damaged(_ what: String) -> DatabaseError {
    DatabaseError(.corruption, "a view's entry is damaged: \(what)")
  }

  /// Returns the key of a row in `places` and `unplaced`, which is its value in `rows`.
  static func rowBytes(_ collection: UInt32, _ row: RowKey) -> [UInt8] {
    row.withBytes { key in
      var bytes: [UInt8] = []
      bytes.reserveCapacity(4 + key.byteCount)
      bytes.append(number: collection)
      bytes.append(bytes: key)
      return bytes
    }
  }
}

/// The place that a row has, or is to have, in a view.
enum ViewPlacement: Equatable {
  /// The row is in no group.
  case none
  /// The row is in a group.
  case placed(ViewEntry)
  /// The row can't be placed, for a reason.
  case unplaced(String)
}
