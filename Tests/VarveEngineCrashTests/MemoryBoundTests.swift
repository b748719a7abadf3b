#if os(Linux)
  import EngineTestSupport
  import Testing

  /// A process whose resident memory is measured from outside of the engine.
  struct MemoryBoundTests {
    private static let mebibyte: UInt64 = 1 << 20

    private func numbers(_ arguments: [String]) throws -> [UInt64] {
      let child = try ChildProcess(ChildProcess.built("varve-memory-target"), arguments)
      var result: [UInt64] = []
      while let number = child.nextNumber() { result.append(number) }
      return result
    }

    @Test(arguments: [32, 64])
    func `resident memory stays within the budget, a tenth and 32 MiB`(budget: UInt64) throws {
      let directory = try TemporaryDirectory()
      // Four times the budget, or eight at larger scales.
      let count = budget * Self.mebibyte / 100 * (TestScale.value >= 4 ? 2 : 1)
      let limit = budget * Self.mebibyte
      let numbers = try numbers(["load", directory.path + "/db", "\(limit)", "\(count)"])
      try #require(numbers.count == 4, "the process died")
      let bound = limit + limit / 10 + 32 * Self.mebibyte
      #expect(numbers[0] > 8 * Self.mebibyte && numbers[0] <= bound, "\(numbers[0]) bytes resident, \(bound) allowed")
      #expect(numbers[1] > limit / 2 && numbers[1] <= limit + limit / 16, "\(numbers[1]) bytes of \(limit) counted")
      #expect(numbers[2] > count / 4 && numbers[3] > count / 3, "\(numbers)")
    }

    @Test func `ten thousand families cost two KiB each, and eight with a record`() throws {
      let count: UInt64 = 9_999
      let numbers = try numbers(["families", "\(count)"])
      try #require(numbers.count == 4, "the process died")
      let idle = (numbers[1] - numbers[0]) / count
      let cold = (numbers[2] - numbers[0]) / count
      #expect(idle <= 2_048, "\(idle) bytes an idle family")
      #expect(cold <= 8_192, "\(cold) bytes a family with one record")
      #expect(numbers[3] >= count * 4_096 && numbers[3] <= count * 8_192, "\(numbers[3]) bytes counted")
    }
  }
#endif
