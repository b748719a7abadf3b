import EngineTestSupport
import Testing

@testable import VarveEngine

struct LargeMemoryTests {
  @Test(arguments: [0, 1, 2, 16, 17, 33, 1_000, 40_000])
  func `a scratch array is sorted stably, like an array, whatever its initial order`(_ count: Int) throws {
    for shape in 0..<4 {
      var random = SeededRandom(seed: UInt64(count + shape))
      let values = (0..<count).map { index in
        switch shape {
        case 0: UInt32(index)
        case 1: UInt32(count - index)
        case 2: UInt32(random.below(8))
        default: UInt32(random.below(1 << 30))
        }
      }
      // The position shows whether equal values stay in order.
      var array = try ScratchArray(repeating: UInt64(0), count: count)
      for index in 0..<count { array[index] = UInt64(values[index]) << 32 | UInt64(index) }
      var comparisons = 0
      try array.sort { left, right in
        comparisons += 1
        return left >> 32 < right >> 32
      }
      let sorted = values.enumerated().sorted { ($0.element, $0.offset) < ($1.element, $1.offset) }
      #expect((0..<count).map { Int(array[$0] & 0xffff_ffff) } == sorted.map(\.offset), "shape \(shape)")
      if shape == 0 { #expect(comparisons <= 2 * count) }
    }
  }

  @Test func `an allocation that the system can't satisfy is an error`() {
    #expect(throws: EngineError.self) { _ = try ScratchArray(repeating: UInt64(0), count: 1 << 45) }
    #expect(throws: EngineError.self) { _ = try BlockMemory.allocate(1 << 50) }
    var memory = TombstoneMemory()
    #expect(throws: EngineError.self) { _ = try unsafe memory.reserve(1 << 50) }
    #expect(memory.size == 0)
  }
}
