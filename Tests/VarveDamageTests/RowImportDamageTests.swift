import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveInspection

/// Tests of importing damaged rows of another database through the row API.
struct RowImportDamageTests {
  private let database: Database
  init() throws { database = try Database.inMemory() }

  private func row(_ key: String, _ object: PortableValue) throws -> PortableRow {
    PortableRow(key: try key.encoded(), object: object, metadata: nil)
  }

  /// `{title: "a", author: {name: "b"}}` and `[{name: "b"}, {name: ""}]`, as the binary coder writes them.
  private static let book = PortableValue(
    shape: ["title", "author"], shapes: [["name"]], bytes: [0x41, 0x61, 0xd2, 0x01, 0x41, 0x62])
  private static let people = PortableValue(shapes: [["name"]], bytes: [0xd1, 0x02, 0x01, 0x41, 0x62, 0x40])

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `damaged bytes of every coder are an error or a value, and never crash the process`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let list = try PropertyListEncoder.binary.encode([
      "a": [["b": "é 漢", "c": "plain"], [:]], "long": Array(repeating: ["x": "y"], count: 20),
    ])
    let json = Array(#"{"a":[1,-2.5e3,"\u00e9\ud83d\ude00",true,null,{}]}"#.utf8)
    let values: [(CoderName, PortableValue)] = [
      (.binary, Self.book), (.binary, Self.people), (.json, PortableValue(bytes: json)),
      (.propertyList, PortableValue(bytes: Array(list))),
      (
        .binary,
        PortableValue(
          shapes: [["a", "b"]], bytes: [0xa2, 0xd3, 0x01, 0x41, 0x61, 0xd2, 0x01, 0xc0, 0xc3, 0xb9] + Array(0..<16))
      ),
    ]
    for (number, (coder, value)) in values.enumerated() {
      let rowImport = try RowImport(
        into: "c\(number)", of: database, as: PortableCollection(keyType: "string", coder: coder))
      #expect(try rowImport.prepare(row("a", value)).object.json != nil)
      for _ in 0..<3_000 {
        var damaged = value
        for _ in 0...random.below(3) {
          switch random.below(3) {
          case 0 where !damaged.bytes.isEmpty:
            damaged.bytes[random.below(damaged.bytes.count)] = UInt8(random.below(256))
          case 1: damaged.bytes.removeLast(random.below(damaged.bytes.count + 1))
          default: damaged.bytes.insert(UInt8(random.below(256)), at: random.below(damaged.bytes.count + 1))
          }
        }
        guard let prepared = try? rowImport.prepare(row("a", damaged)) else { continue }
        // Accepted rows can be stored and read as bytes.
        if random.oneIn(50) { try rowImport.commit([prepared]) }
      }
    }
  }
}

extension PropertyListEncoder {
  /// An encoder with the configuration of the coder of collections.
  static var binary: PropertyListEncoder {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    return encoder
  }
}
