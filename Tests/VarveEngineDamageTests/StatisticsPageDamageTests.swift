import Testing

@testable import VarveEngine

/// Tests of the page of published statistics with damage.
struct StatisticsPageDamageTests {
  @Test func `every flipped byte and every cut of the page is an error, never other metrics`() throws {
    let page = StatisticsPage(
      updateCount: 7, process: ProcessIdentity(number: 3, start: 4), databaseID: 5, nanoseconds: 6,
      json: "{\"a\":\"some text\"}")
    let bytes = page.encode()
    func decode(_ bytes: [UInt8]) throws(EngineError) -> StatisticsPage {
      try bytes.withByteView { (view) throws(EngineError) in try StatisticsPage(decoding: view, "STATS") }
    }
    #expect(try decode(bytes) == page)
    // Bytes after the page, which an earlier, longer page left, are ignored.
    #expect(try decode(bytes + [1, 2, 3]) == page)
    for index in bytes.indices {
      var flipped = bytes
      flipped[index] ^= 0x10
      let error = #expect(throws: EngineError.self, "byte \(index)") { try decode(flipped) }
      #expect(error?.code == ((8..<12).contains(index) ? .unsupportedFormat : .corruption), "byte \(index)")
    }
    for count in 0..<bytes.count {
      #expect(throws: EngineError.self, "cut to \(count)") { try decode(Array(bytes[..<count])) }
    }
  }
}
