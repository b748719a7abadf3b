import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of random values, encoded through random APIs: the decoded value must be that of JSON, and that which their
/// own type expects.
struct RandomSchemaTests {
  @Test(arguments: (1...8).map { UInt64($0) })
  func `the binary coder reads the values that the JSON coder reads`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    var binary = ValueCoder(.binary)
    let json = ValueCoder(.json)
    for round in 0..<TestScale.count(100) {
      // All records have the same type of keys: after some values, their fields occurred in too many orders for
      // shapes.
      if round % 5 == 0 { binary = ValueCoder(.binary) }
      let node = RandomNode.random(&random)
      let expected = try json.untyped(try json.encode(node)).sorted
      let row = try binary.encode(node)
      let location: Comment = "seed \(seed), round \(round)"
      #expect(try binary.untyped(row).sorted == expected, location)
      // The row is decoded by the kinds of its values, as by a program that knows none of the types.
      #expect(try binary.decode(UntypedValue.self, row).sorted == expected, location)
      let reader = RandomReader.Expectation(node: node, random: RandomSource(seed: seed &+ UInt64(round)))
      RandomReader.$expectation.withValue(reader) {
        #expect(throws: Never.self, location) { try binary.decode(RandomReader.self, row) }
      }
      // The JSON is read in the same way, so that the check itself is known to be right.
      if round % 10 == 0 {
        RandomReader.$expectation.withValue(reader) {
          #expect(throws: Never.self, location) { try json.decode(RandomReader.self, try json.encode(node)) }
        }
      }
    }
  }

  @Test func `a reader that expects other values throws`() throws {
    let binary = ValueCoder(.binary)
    let node = RandomNode.record([(.a, .value, .int(1)), (.b, .value, .list([(.value, .string("x"))]))], isLate: false)
    let other = RandomNode.record(
      [(.a, .value, .int(2)), (.b, .value, .list([(.value, .string("y"))]))], isLate: false)
    let row = try binary.encode(node)
    var found = 0
    for seed in 0..<20 {
      let reader = RandomReader.Expectation(node: other, random: RandomSource(seed: UInt64(seed)))
      RandomReader.$expectation.withValue(reader) {
        do { _ = try binary.decode(RandomReader.self, row) } catch { found += 1 }
      }
    }
    // Some of the values have omitted parts.
    #expect(found > 10)
  }
}
