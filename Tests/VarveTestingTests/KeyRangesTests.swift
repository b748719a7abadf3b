import Testing
import Varve

@testable import VarveTesting

/// Tests of the ranges that a transaction of a test's storage has deleted.
struct KeyRangesTests {
  @Test func `ranges that overlap or touch become one`() {
    var ranges = KeyRanges()
    for (lower, upper) in [(10, 20), (30, 40), (50, 60), (20, 30), (70, 80), (55, 75), (5, 5)] {
      ranges.insert(StorageRange(lower: [UInt8(lower)], upper: [UInt8(upper)]))
    }
    #expect(ranges.ranges == [StorageRange(lower: [10], upper: [40]), StorageRange(lower: [50], upper: [80])])
    #expect(ranges.contains([10]) && ranges.contains([39, 255]) && !ranges.contains([40]) && !ranges.contains([9]))
    ranges.insert(StorageRange(lower: [60], upper: nil))
    #expect(ranges.ranges == [StorageRange(lower: [10], upper: [40]), StorageRange(lower: [50], upper: nil)])
    ranges.insert(StorageRange())
    #expect(ranges.ranges == [StorageRange()])
    ranges.insert(StorageRange(lower: [1], upper: [2]))
    #expect(ranges.ranges == [StorageRange()])
  }
}
