import Foundation
import Testing

@testable import ObjectFixtures
@_spi(Measurement) @testable import Varve

/// Tests that the probe, which is measured, encodes as collections do.
struct CoderProbeTests {
  @Test(arguments: [CoderKind.binary, .json, .propertyList])
  func `a probe gives the bytes of a collection, and reads them`(kind: CoderKind) throws {
    let probe = CoderProbe(kind)
    let coder = ValueCoder(kind)
    for number in 0..<3 {
      let book = Zoo.Book.sample(number)
      let row = try probe.encode(book)
      #expect(row == (try coder.encode(book)))
      #expect(try probe.encodedSize(book) == row.bytes.count)
      #expect(try probe.decode(Zoo.Book.self, row) == book)
    }
  }
}
