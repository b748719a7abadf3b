import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of variable-length integers that no writer makes.
struct VarintDamageTests {
  private func decode(_ bytes: [UInt8]) throws(EngineError) -> UInt64 {
    try bytes.withByteView { (view) throws(EngineError) in
      var reader = ByteReader(view)
      return try reader.varint()
    }
  }

  @Test(arguments: [
    [UInt8](repeating: 0x80, count: 10) + [0], [UInt8](repeating: 0xff, count: 9) + [2],
    [UInt8](repeating: 0xff, count: 20),
  ])
  func `a varint of more than 64 bits is corruption`(bytes: [UInt8]) {
    #expect(errorCode { () throws(EngineError) in _ = try decode(bytes) } == .corruption)
  }
}
