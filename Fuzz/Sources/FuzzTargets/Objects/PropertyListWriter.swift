import Foundation

@testable import Varve
@testable import VarveInspection

/// Writes binary property lists in the format that `BinaryPropertyList` documents.
struct PropertyListWriter {
  private var objects: [[UInt8]] = []

  /// Adds an object, and returns its number.
  mutating func add(_ node: FuzzNode) -> UInt16 {
    switch node {
    case .null: return add([0x00])
    case .bool(let value): return add([value ? 0x09 : 0x08])
    case .integer(let value): return add([0x13] + BigEndian.bytes(Int64(value)))
    case .double(let value): return add([0x23] + BigEndian.bytes(value.bitPattern))
    case .date(let value): return add([0x33] + BigEndian.bytes(value.timeIntervalSinceReferenceDate.bitPattern))
    case .string(let value): return add(value)
    case .data(let value): return add(Self.head(0x40, value.count) + value)
    case .uuid(let value): return add(value.uuidString)
    case .list(let nodes):
      let references = nodes.map { add($0) }
      return add(Self.head(0xA0, references.count) + references.flatMap { BigEndian.bytes($0) })
    case .record(let fields): return add(fields.map { ($0.0.rawValue, $0.1) })
    case .map(let entries): return add(entries)
    }
  }

  private mutating func add(_ entries: [(String, FuzzNode)]) -> UInt16 {
    let keys = entries.map { add($0.0) }
    let values = entries.map { add($0.1) }
    return add(Self.head(0xD0, entries.count) + (keys + values).flatMap { BigEndian.bytes($0) })
  }

  private mutating func add(_ text: String) -> UInt16 {
    if text.utf8.allSatisfy({ $0 < 0x80 }) { return add(Self.head(0x50, text.utf8.count) + Array(text.utf8)) }
    return add(Self.head(0x60, text.utf16.count) + text.utf16.flatMap { BigEndian.bytes($0) })
  }

  private mutating func add(_ object: [UInt8]) -> UInt16 {
    objects.append(object)
    return UInt16(objects.count - 1)
  }

  private static func head(_ marker: UInt8, _ count: Int) -> [UInt8] {
    count < 15 ? [marker | UInt8(count)] : [marker | 0x0F, 0x11] + BigEndian.bytes(UInt16(count))
  }

  func bytes(top: UInt16) -> [UInt8] {
    var bytes = Array("bplist00".utf8)
    var offsets: [UInt8] = []
    for object in objects {
      offsets += BigEndian.bytes(UInt32(bytes.count))
      bytes += object
    }
    let table = UInt64(bytes.count)
    bytes += offsets + [0, 0, 0, 0, 0, 0, 4, 2]
    return bytes + BigEndian.bytes(UInt64(objects.count)) + BigEndian.bytes(UInt64(top)) + BigEndian.bytes(table)
  }
}
