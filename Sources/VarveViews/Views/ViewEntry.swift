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
  /// The key in `rows`.
  var key: [UInt8]
  /// The size of the group at the beginning of the key.
  var groupSize: Int

  init(key: [UInt8], groupSize: Int) {
    self.key = key
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
    key = Array(bytes[offset...])
    groupSize = Int(size)
  }

  /// The value in `places`.
  var place: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(key.count + 2)
    bytes.append(varint: groupSize)
    bytes.append(contentsOf: key)
    return bytes
  }

  /// The encoding of the group.
  var group: [UInt8] { Array(key[..<groupSize]) }

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
