internal import Varve

/// The format of edges in the families of a domain.
///
/// Each edge has two entries, one by its source and one by its destination. Edges that rows declare and edges that were
/// added by hand have separate families, because only the former can be created again from the rows: `declared.from`,
/// `declared.to`, `manual.from`, `manual.to`.
///
/// ```
///  end      0x01, number of the collection (4 bytes, big-endian), key of the row
///           0x02, name of the root (UTF-8), 0x00, path (UTF-8), 0x00
///
///  by source:       source, 0x01, name (UTF-8), 0x00, order, destination, size of the source (2 bytes, big-endian)
///  by destination:  destination, 0x01, name (UTF-8), 0x00, source, size of the destination (2 bytes, big-endian)
///
///  order            a number as part of a key: 0x30 for 0, which is usual
///
///  value by source:       rules, dangling, then what the edge carries as JSON
///  value by destination:  rules, dangling with bit 7 where the edge carries something, then the order, unless it is 0
/// ```
/// The format is stored on disk and must never change. `dangling` is 0 for weak, 1 for error, and 2 for delete the
/// source.
///
/// Invariants:
/// 1. The bytes before the name are never a prefix of those of a longer key: no part of a key begins with 0x01, and
///    only the zero byte in strings is followed by 0xff. So the entries of a row are those that begin with its end and
///    0x01.
/// 2. The entry by destination has no order in its key, so that an edge is found by its identity, independent of its
///    position.
enum EdgeFormat {
  static let row: UInt8 = 1
  static let file: UInt8 = 2
  /// The byte after the first end.
  static let endMark: UInt8 = 1
  /// The byte after the name.
  static let nameMark: UInt8 = 0
  static let carriesBit: UInt8 = 0x80

  /// The maximum total size of both ends of an edge in bytes.
  static let endsSizeMaximum = 60 << 10

  // MARK: - Ends

  static func append(row collection: UInt32, _ key: RawSpan, to bytes: inout [UInt8]) {
    bytes.append(row)
    for shift in stride(from: 24, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: collection >> shift)) }
    // Safety: the bytes are copied within the call.
    unsafe key.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
  }

  static func append(file root: String, _ path: String, to bytes: inout [UInt8]) {
    bytes.append(file)
    bytes.append(contentsOf: root.utf8)
    bytes.append(0)
    bytes.append(contentsOf: path.utf8)
    bytes.append(0)
  }

  /// Returns the collection number of an end that is a row, or nil for a file.
  static func collection(_ end: ArraySlice<UInt8>) -> UInt32? {
    guard end.first == row, end.count >= 5 else { return nil }
    return end.dropFirst().prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// Returns the key of an end that is a row.
  static func key(_ end: ArraySlice<UInt8>) -> ArraySlice<UInt8> { end.dropFirst(5) }

  /// Returns the common prefix of the ends that are rows of a collection.
  static func prefix(ofCollection number: UInt32) -> [UInt8] {
    var bytes: [UInt8] = []
    append(row: number, RawSpan(), to: &bytes)
    return bytes
  }

  /// Returns the root and path of an end that is a file, or nil for another end.
  static func fileLocation(_ end: ArraySlice<UInt8>) -> (root: String, path: String)? {
    guard end.first == file, let mark = end.firstIndex(of: 0), end.last == 0, mark < end.index(before: end.endIndex),
      let root = String(validating: end[(end.startIndex + 1)..<mark], as: UTF8.self),
      let path = String(validating: end[(mark + 1)..<(end.endIndex - 1)], as: UTF8.self)
    else { return nil }
    return (root, path)
  }

  // MARK: - Keys

  /// Returns the common prefix of the keys of an end's entries, or of those with a name.
  static func prefix(_ end: ArraySlice<UInt8>, _ name: EdgeName?) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(end.count + 2 + (name?.text.utf8.count ?? 0))
    bytes.append(contentsOf: end)
    bytes.append(endMark)
    if let name {
      bytes.append(contentsOf: name.text.utf8)
      bytes.append(nameMark)
    }
    return bytes
  }

  /// Appends the key of an entry by source.
  static func appendFromKey(
    _ source: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>, _ order: Int64, _ destination: ArraySlice<UInt8>,
    to bytes: inout [UInt8]
  ) {
    bytes.append(contentsOf: source)
    bytes.append(endMark)
    bytes.append(contentsOf: name)
    bytes.append(nameMark)
    appendOrder(order, to: &bytes)
    bytes.append(contentsOf: destination)
    appendSize(source.count, to: &bytes)
  }

  /// Appends the key of an entry by destination.
  static func appendToKey(
    _ destination: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>, _ source: ArraySlice<UInt8>, to bytes: inout [UInt8]
  ) {
    bytes.append(contentsOf: destination)
    bytes.append(endMark)
    bytes.append(contentsOf: name)
    bytes.append(nameMark)
    bytes.append(contentsOf: source)
    appendSize(destination.count, to: &bytes)
  }

  /// Replaces bytes by the key of an entry: by source if an order is given, and otherwise by destination.
  static func replace(
    _ bytes: inout [UInt8], by first: [UInt8], _ name: EdgeName, _ order: Int64?, _ second: [UInt8]
  ) {
    bytes.removeAll(keepingCapacity: true)
    bytes.append(contentsOf: first)
    bytes.append(endMark)
    bytes.append(contentsOf: name.text.utf8)
    bytes.append(nameMark)
    if let order { appendOrder(order, to: &bytes) }
    bytes.append(contentsOf: second)
    appendSize(first.count, to: &bytes)
  }

  /// Replaces bytes by the key of the other entry of an edge. `key` is the key of the one entry, with its pieces at the
  /// positions of `layout`.
  static func mirror(
    _ key: borrowing [UInt8], _ layout: EdgeLayout, bySource: Bool, order: Int64, into bytes: inout [UInt8]
  ) {
    bytes.removeAll(keepingCapacity: true)
    // Safety: the ranges are checked by the slices, and the bytes are copied within the call.
    unsafe key.withUnsafeBytes { key in
      unsafe bytes.append(contentsOf: key[layout.second])
      bytes.append(endMark)
      unsafe bytes.append(contentsOf: key[layout.name])
      bytes.append(nameMark)
      if !bySource { appendOrder(order, to: &bytes) }
      unsafe bytes.append(contentsOf: key[layout.first])
    }
    appendSize(layout.second.count, to: &bytes)
  }

  private static func appendSize(_ size: Int, to bytes: inout [UInt8]) {
    bytes.append(UInt8(truncatingIfNeeded: size >> 8))
    bytes.append(UInt8(truncatingIfNeeded: size))
  }

  /// Appends an order in the encoding of an integer key part.
  static func appendOrder(_ order: Int64, to bytes: inout [UInt8]) {
    if order == 0 { return bytes.append(0x30) }
    let magnitude = order.magnitude
    let size = (64 - magnitude.leadingZeroBitCount + 7) / 8
    bytes.append(order > 0 ? 0x30 + UInt8(size) : 0x30 - UInt8(size))
    for index in (0..<size).reversed() {
      let byte = UInt8(truncatingIfNeeded: magnitude >> (index * 8))
      bytes.append(order > 0 ? byte : ~byte)
    }
  }

  /// Returns the order at the beginning of bytes and the size of its encoding, or nil if the bytes do not begin with an
  /// order.
  static func order(_ bytes: ArraySlice<UInt8>) -> (order: Int64, size: Int)? {
    guard let tag = bytes.first, (0x28...0x38).contains(tag) else { return nil }
    let size = abs(Int(tag) - 0x30)
    guard bytes.count > size else { return nil }
    var magnitude: UInt64 = 0
    for byte in bytes.dropFirst().prefix(size) { magnitude = magnitude << 8 | UInt64(tag > 0x30 ? byte : ~byte) }
    if tag >= 0x30 { return Int64(exactly: magnitude).map { ($0, size + 1) } }
    return magnitude <= Int64.min.magnitude ? (Int64(truncatingIfNeeded: 0 &- magnitude), size + 1) : nil
  }
}
