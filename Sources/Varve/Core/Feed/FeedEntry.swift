/// A commit in the feed, or a part of one, as it was read: the rows that it changed, and how it changed them, but not
/// their content.
///
/// ```
///  byte 0        format of this entry, 1
///  byte 1        flags: bit 0 the last part of its commit, bit 1 all rows of all collections were removed,
///                bit 2 a label follows, bit 3 a custom object follows; the others are zero
///  varint        how many bytes of the segment stand before this entry (FeedState)
///  varint        when it was committed, in seconds since 1970
///  varint, n     the label: its size, and UTF-8
///  varint, n     the custom object: its size, and its bytes
///  varint        how many collections follow
///    varint      the collection's id
///    varint      how many of its rows follow, times two; plus one where all its rows were removed before
///      byte      what was done to the row (RowState.bits)
///      varint, n its key without what the collection's family demands: size and bytes
/// ```
/// Varints are those of `RowHeader`. The format is on disk and must never change.
///
/// A commit of more than 10,000 rows, or of more than a mebibyte of them, has several parts, numbered from 0, all with
/// the same version. The label, the custom object, and bit 1 are in the first part. A collection may continue in the
/// next part; a row is in only one part. Readers combine the parts again: a change set is a whole commit.
struct FeedEntry: Equatable {
  struct Collection: Equatable {
    var id: UInt32
    var isCleared = false
    var rows: [Row] = []
  }

  struct Row: Equatable {
    var state: RowState
    var key: [UInt8]
  }

  static let format: UInt8 = 1
  static let lastPart: UInt8 = 1
  static let everythingCleared: UInt8 = 2
  static let hasLabel: UInt8 = 4
  static let hasCustom: UInt8 = 8

  var isLast = true
  var isEverythingCleared = false
  var offset: UInt64 = 0
  var time: Int64 = 0
  var label: String?
  var custom: [UInt8]?
  var collections: [Collection] = []

  /// Reads an entry. Throws `.corruption` for invalid bytes, and `.unsupportedVersion` for an unknown format. It never
  /// traps, and takes at most some twenty times the memory of the bytes.
  init(_ bytes: [UInt8]) throws {
    var reader = FeedBytes(bytes)
    let format = try reader.byte()
    guard format == Self.format else {
      throw DatabaseError(.unsupportedVersion, "an entry of the feed has format \(format)")
    }
    let flags = try reader.byte()
    guard flags < 16 else { throw Self.damaged("its flags are \(flags)") }
    isLast = flags & Self.lastPart != 0
    isEverythingCleared = flags & Self.everythingCleared != 0
    offset = try reader.number()
    guard let time = Int64(exactly: try reader.number()) else { throw Self.damaged("its time is none") }
    self.time = time
    if flags & Self.hasLabel != 0 { label = try reader.text() }
    if flags & Self.hasCustom != 0 { custom = try reader.bytes() }
    // A collection takes at least two bytes, and a row at least two more.
    let collectionCount = try reader.count(of: 2)
    collections.reserveCapacity(collectionCount)
    for _ in 0..<collectionCount { collections.append(try Self.collection(&reader)) }
    guard reader.isAtEnd else { throw Self.damaged("bytes follow its end") }
  }

  private static func collection(_ reader: inout FeedBytes) throws -> Collection {
    guard let id = UInt32(exactly: try reader.number()) else { throw damaged("a collection's id is none") }
    let (rowCount, isCleared) = try reader.halvedCount(of: 2)
    var collection = Collection(id: id, isCleared: isCleared)
    collection.rows.reserveCapacity(rowCount)
    for _ in 0..<rowCount {
      guard let state = RowState(bits: try reader.byte()) else { throw damaged("a row's state is none") }
      collection.rows.append(Row(state: state, key: try reader.bytes()))
    }
    return collection
  }

  static func damaged(_ message: String) -> DatabaseError {
    DatabaseError(.corruption, "an entry of the feed is damaged: \(message)")
  }
}

/// A reader of bytes of the feed, from the first to the last. Each length is checked against the remaining bytes.
struct FeedBytes {
  private let content: [UInt8]
  private var offset = 0

  init(_ content: [UInt8]) { self.content = content }

  var isAtEnd: Bool { offset == content.count }
  private var left: Int { content.count - offset }

  mutating func byte() throws -> UInt8 {
    guard left > 0 else { throw FeedEntry.damaged("it ends too early") }
    defer { offset += 1 }
    return content[offset]
  }

  mutating func number() throws -> UInt64 {
    do {
      var end = offset
      defer { offset = end }
      return unsafe try Varint.read(content.span.bytes, &end)
    } catch {
      throw FeedEntry.damaged("a number does not end, has more than 64 bits, or is longer than it needs to be")
    }
  }

  /// Reads the number of the following elements, each of which takes at least `size` bytes.
  mutating func count(of size: Int) throws -> Int {
    let number = try number()
    return try checked(number, size)
  }

  /// Reads the number of the following elements, and a bit that is stored below it.
  mutating func halvedCount(of size: Int) throws -> (count: Int, bit: Bool) {
    let number = try number()
    return (try checked(number >> 1, size), number & 1 != 0)
  }

  private func checked(_ number: UInt64, _ size: Int) throws -> Int {
    guard number <= UInt64(left / size) else { throw FeedEntry.damaged("it announces more than it has") }
    return Int(number)
  }

  mutating func bytes() throws -> [UInt8] {
    let size = try count(of: 1)
    defer { offset += size }
    return Array(content[offset..<(offset + size)])
  }

  mutating func text() throws -> String {
    guard let text = String(validating: try bytes(), as: UTF8.self) else {
      throw FeedEntry.damaged("its label is not UTF-8")
    }
    return text
  }
}
