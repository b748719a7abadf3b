#if os(Linux)
  import EngineTestSupport
  import Testing

  /// Tests of the memory that one large value, or one large batch, takes: a multiple of its size, measured as the
  /// growth of a process.
  ///
  /// The bounds leave a quarter for what the system rounds up and keeps.
  struct LargeCopyTests {
    private static let mebibyte: UInt64 = 1 << 20
    private static let size = 64 * mebibyte

    private struct Numbers {
      let growth: UInt64
      let used: UInt64
      let wrong: UInt64
    }

    private func measure(
      _ operation: String, _ kind: String, size: UInt64 = LargeCopyTests.size, budget: UInt64
    ) throws -> Numbers {
      let directory = try TemporaryDirectory()
      let child = try ChildProcess(
        ChildProcess.built("varve-memory-target"),
        ["large", directory.path + "/db", "\(budget)", "\(size)", operation, kind],
        environment: ["MALLOC_ARENA_MAX=4"])
      var numbers: [UInt64] = []
      while let number = child.nextNumber() { numbers.append(number) }
      try #require(numbers.count == 3, "the process died")
      print("\(operation) of \(kind), \(size >> 20) MiB: \(numbers[0] >> 20) MiB more, \(numbers[1] >> 20) counted")
      return Numbers(growth: numbers[0], used: numbers[1], wrong: numbers[2])
    }

    private static func bound(_ copies: Double) -> UInt64 {
      UInt64((copies + 0.25) * Double(size)) + 16 * mebibyte
    }

    /// The first number is the copies that may exist beside those that the caller has, and the second the copies of
    /// which the budget must know.
    @Test(arguments: [
      // The memtable has the only copy.
      ("put", 1.0, 1.0),
      // The batch has another one, which is the caller's.
      ("batch", 2.0, 1.0), ("entries", 2.0, 1.0), ("commit", 1.0, 1.0),
      // The value is compressed and written from the memtable.
      ("flush", 0.0, 1.0),
      // Each of the two inputs has its block. Nothing is left afterwards that could be counted.
      ("compaction", 2.0, 0.0),
      // The block that was read, and the result.
      ("get", 2.0, 1.0), ("withValue", 1.0, 1.0), ("cursor", 1.0, 1.0),
      // The operands that were collected, the folded value, and the result.
      ("fold", 3.0, 0.5),
      // The segment that is read, and the memtable.
      ("reopening", 2.0, 1.0),
      ("follower", 2.0, 1.0),
    ])
    func `an operation with a value of 64 MiB takes a stated number of copies`(
      operation: String, copies: Double, counted: Double
    ) throws {
      for kind in ["noise", "words"] {
        let numbers = try measure(operation, kind, budget: 256 * Self.mebibyte)
        #expect(numbers.wrong == 0, "\(operation) of \(kind): \(numbers.wrong) wrong results")
        #expect(
          numbers.growth <= Self.bound(copies), "\(operation) of \(kind): \(numbers.growth) bytes for \(copies) copies")
        let least = UInt64(counted * 0.75 * Double(Self.size))
        #expect(numbers.used >= least, "\(operation) of \(kind): \(numbers.used) bytes counted, \(least) expected")
      }
    }

    @Test func `four values of 64 MiB stay within a budget of 128 MiB and one value`() throws {
      let budget = 128 * Self.mebibyte
      let numbers = try measure("fourPuts", "noise", budget: budget)
      #expect(numbers.wrong == 0)
      let bound = budget + Self.size + 32 * Self.mebibyte
      #expect(numbers.growth <= bound, "\(numbers.growth) bytes more, \(bound) allowed")
    }

    @Test(arguments: ["put", "batch", "flush", "get", "reopening"])
    func `values next to the size above which they are not copied are written and read`(operation: String) throws {
      for size in [Self.mebibyte - 1, Self.mebibyte, Self.mebibyte + 1] {
        for kind in ["noise", "words"] {
          let numbers = try measure(operation, kind, size: size, budget: 64 * Self.mebibyte)
          #expect(numbers.wrong == 0, "\(operation) of \(kind), \(size) bytes")
        }
      }
    }
  }
#endif
