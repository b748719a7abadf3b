import Foundation
import Testing
import Varve
import VarveInspection

/// Tests of property lists that are read without Foundation, which crashes on damaged ones.
struct BinaryPropertyListTests {
  /// Returns a property list displayed as JSON.
  private func json(_ bytes: [UInt8]) throws -> String? {
    let database = try Database.inMemory()
    let rowImport = try RowImport(
      into: "lists", of: database, as: PortableCollection(keyType: "int", coder: .propertyList))
    return try rowImport.prepare(PortableRow(key: try 1.encoded(), object: PortableValue(bytes: bytes))).object.json
  }

  private func written(_ value: Any) throws -> [UInt8] {
    Array(try PropertyListSerialization.data(fromPropertyList: value, format: .binary, options: 0))
  }

  /// Returns a property list of objects, each of at most 255 bytes, with one byte for each offset and reference.
  private func list(_ objects: [[UInt8]]) -> [UInt8] {
    var bytes = Array("bplist00".utf8)
    var offsets: [UInt8] = []
    for object in objects {
      offsets.append(UInt8(bytes.count))
      bytes += object
    }
    let table = UInt8(bytes.count)
    return bytes + offsets + [0, 0, 0, 0, 0, 0, 1, 1] + [UInt8](repeating: 0, count: 7) + [UInt8(objects.count)]
      + [UInt8](repeating: 0, count: 15) + [table]
  }

  @Test func `lists written by Foundation are displayed with their values`() throws {
    let values: [String: Any] = [
      "integers": [0, 255, 256, 65_536, -1, Int.min, Int.max] as [Int], "largest": UInt64.max,
      "numbers": [1.5, -0.25] as [Double], "flags": [true, false], "empty": [String: Any](), "text": "plain",
      "wide": "é 漢 😀", "long": String(repeating: "x", count: 300), "date": Date(timeIntervalSinceReferenceDate: 0.5),
      "data": Data([0, 255]),
    ]
    let found = try json(try written(values))
    let long = String(repeating: "x", count: 300)
    #expect(
      found
        == #"{"data":"AP8=","date":"2001-01-01T00:00:00.500Z","empty":{},"flags":[true,false],"#
        + #""integers":[0,255,256,65536,-1,-9223372036854775808,9223372036854775807],"largest":18446744073709551615,"#
        + #""long":""# + long + #"","numbers":[1.5,-0.25],"text":"plain","wide":"é 漢 😀"}"#)
    let many = Array(repeating: "equal", count: 70_000)
    #expect(try json(try written(many))?.utf8.count == 70_000 * 8 + 1)
  }

  @Test func `a list that refers to itself is corrupt, and so is one that grows without end`() throws {
    let doubling = (0..<30).map { [0xA2, UInt8($0 + 1), UInt8($0 + 1)] as [UInt8] } + [[0x10, 0x01]]
    let deep = (0..<60).map { [0xA1, UInt8($0 + 1)] as [UInt8] } + [[0x09]]
    #expect(try json(list(deep)) == String(repeating: "[", count: 60) + "true" + String(repeating: "]", count: 60))
    #expect(try json(list([[0xA2, 1, 1], [0x51, 0x61]])) == #"["a","a"]"#)
    for objects in [[[0xA1, 0]], [[0xA2, 0, 0]], [[0xD1, 1, 0], [0x51, 0x61]], doubling] as [[[UInt8]]] {
      let error = #expect(throws: DatabaseError.self) { try json(list(objects)) }
      #expect(error?.code == .corruption)
    }
  }

  @Test(
    arguments: [
      [], Array("bplist00".utf8), Array("bplist00".utf8) + [UInt8](repeating: 0, count: 32),
      Array("bplist00".utf8) + [UInt8](repeating: 255, count: 32), Array("text".utf8),
    ] as [[UInt8]])
  func `bytes that aren't a list are corrupt`(bytes: [UInt8]) throws {
    #expect(throws: DatabaseError.self) { try json(bytes) }
  }

  @Test func `an XML list is stored, and not displayed`() throws {
    let bytes = Array(try PropertyListSerialization.data(fromPropertyList: ["a"], format: .xml, options: 0))
    #expect(try json(bytes) == nil)
  }
}
