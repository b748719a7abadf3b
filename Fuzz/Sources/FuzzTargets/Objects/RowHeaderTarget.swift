@testable import Varve

/// The target for the headers of rows. The input is the family (1 byte, of which one bit counts), then a row of
/// `objects` or of `metadata`.
enum RowHeaderTarget {
  static func read(_ input: RawSpan) throws {
    guard input.byteCount > 0 else { throw RowHeader.damaged("the input is empty") }
    let row = input.extracting(1..<input.byteCount)
    let bytes = row.copied
    var again: [UInt8] = []
    let end: Int
    if Varint.byte(input, 0) & 1 == 0 {
      let (header, offset) = try RowHeader.read(row)
      header.append(to: &again)
      try require(offset <= RowHeader.sizeMaximum, "a header of \(offset) bytes")
      end = offset
    } else {
      let (coder, version, shape, offset) = try RowHeader.readMetadata(row)
      RowHeader.appendMetadata(coder: coder, version: version, shape: shape, to: &again)
      end = offset
    }
    try require(again[...] == bytes[..<end], "a header of \(Array(bytes[..<end])) is written as \(again)")
  }
}
