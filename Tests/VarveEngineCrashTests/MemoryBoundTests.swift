#if os(Linux)
  import EngineTestSupport
  import Testing

  /// Tests of a process whose resident memory is measured from outside of the engine.
  struct MemoryBoundTests {
    private static let mebibyte: UInt64 = 1 << 20

    private func numbers(_ arguments: [String]) throws -> [UInt64] {
      // Without this limit, the allocator would use many separate heaps in a process with many threads.
      let child = try ChildProcess(
        ChildProcess.built("varve-memory-target"), arguments, environment: ["MALLOC_ARENA_MAX=4"])
      var result: [UInt64] = []
      while let number = child.nextNumber() { result.append(number) }
      return result
    }

    @Test(arguments: [32, 64])
    func `resident memory stays within the budget, a tenth and 32 MiB`(budget: UInt64) throws {
      let directory = try TemporaryDirectory()
      // The data is four times the budget, or eight times at larger scales.
      let count = budget * Self.mebibyte / 100 * (TestScale.value >= 4 ? 2 : 1)
      let limit = budget * Self.mebibyte
      let numbers = try numbers(["load", directory.path + "/db", "\(limit)", "\(count)"])
      try #require(numbers.count == 4, "the process died")
      let bound = limit + limit / 10 + 32 * Self.mebibyte
      #expect(numbers[0] > 8 * Self.mebibyte && numbers[0] <= bound, "\(numbers[0]) bytes resident, \(bound) allowed")
      #expect(numbers[1] > limit / 2 && numbers[1] <= limit + limit / 16, "\(numbers[1]) bytes of \(limit) counted")
      #expect(numbers[2] > count / 4 && numbers[3] > count / 3, "\(numbers)")
    }

    @Test func `under a mixed load resident memory stays within the budget, a tenth and 32 MiB`() throws {
      let directory = try TemporaryDirectory()
      let limit = 96 * Self.mebibyte
      let count = TestScale.count(1_000_000)
      let numbers = try numbers(["mixed", directory.path + "/db", "\(limit)", "\(count)"])
      try #require(numbers.count == 3, "the process died")
      let bound = limit + limit / 10 + 32 * Self.mebibyte
      print("mixed load: \(numbers[0] >> 20) MiB resident at most, \(bound >> 20) allowed")
      #expect(numbers[0] > 32 * Self.mebibyte)
      #expect(numbers[0] <= bound, "\(numbers[0]) bytes resident, \(bound) allowed")
      #expect(numbers[2] == 0, "\(numbers[2]) wrong answers")
    }

    /// Writes 192 MiB during each kind of read, or 4 GiB if the suites are twenty times as long.
    @Test(arguments: [
      ("get", 1), ("get", 64), ("multiGet", 128), ("withValue", 16), ("withValue", 128), ("cursor", 64),
    ])
    func `memory stays within its bounds while threads read without a pause`(kind: String, threads: Int) throws {
      let directory = try TemporaryDirectory()
      let limit = 48 * Self.mebibyte
      let written = (TestScale.value >= 20 ? 4_096 : 192) * Self.mebibyte
      let numbers = try numbers(["readers", directory.path + "/db", "\(limit)", "\(threads)", "\(written)", kind])
      try #require(numbers.count == 4, "the process died")
      let counted = limit + limit / 10
      let bound = counted + 32 * Self.mebibyte + UInt64(threads) * 512 << 10
      print(
        "\(threads) threads of \(kind): \(numbers[0] >> 20) MiB resident at most, \(bound >> 20) allowed, "
          + "\(numbers[1] >> 20) counted, \(counted >> 20) allowed, \(numbers[2]) reads"
      )
      #expect(numbers[1] > limit / 4 && numbers[1] <= counted, "\(numbers[1]) bytes counted, \(counted) allowed")
      #expect(numbers[0] <= bound, "\(numbers[0]) bytes resident, \(bound) allowed")
      #expect(numbers[3] == 0, "\(numbers[3]) wrong answers")
    }

    @Test func `a log of six times the budget is replayed within the budget`() throws {
      let directory = try TemporaryDirectory()
      let limit = 16 * Self.mebibyte
      let numbers = try numbers(["replay", directory.path + "/db", "\(limit)", "\(6 * limit)"])
      try #require(numbers.count == 4, "the process died")
      let bound = limit + limit / 10 + 32 * Self.mebibyte
      print("replay: \(numbers[0] >> 20) MiB resident at most, \(numbers[1] >> 20) counted, \(limit >> 20) MiB budget")
      #expect(numbers[0] <= bound, "\(numbers[0]) bytes resident, \(bound) allowed")
      #expect(numbers[1] <= limit + limit / 10, "\(numbers[1]) bytes counted of \(limit)")
      #expect(numbers[2] == numbers[3], "\(numbers[2]) entries of \(numbers[3])")
    }

    @Test func `a batch of 400,000 range deletes and its flush take at most 128 MiB beside the batch`() throws {
      let directory = try TemporaryDirectory()
      let count: UInt64 = 400_000
      let numbers = try numbers(["ranges", directory.path + "/db", "\(512 * Self.mebibyte)", "\(count)"])
      try #require(numbers.count == 4, "the process died")
      print(
        "range deletes: \(numbers[0] >> 20) MiB while they are written, \(numbers[1] >> 20) while they are flushed, "
          + "\(numbers[2] >> 20) counted")
      #expect(numbers[0] <= 128 * Self.mebibyte, "\(numbers[0]) bytes resident")
      #expect(numbers[1] <= 128 * Self.mebibyte, "\(numbers[1]) bytes resident")
      #expect(numbers[2] > count * 100, "\(numbers[2]) bytes counted")
      #expect(numbers[3] == 1)
    }

    @Test func `ten thousand families take two KiB each, or eight with a record, and that memory is counted`() throws {
      let count: UInt64 = 9_999
      let numbers = try numbers(["families", "\(count)"])
      try #require(numbers.count == 6, "the process died")
      let idle = (numbers[1] - numbers[0]) / count
      let cold = (numbers[2] - numbers[0]) / count
      let countedIdle = (numbers[4] - numbers[3]) / count
      let countedCold = (numbers[5] - numbers[3]) / count
      print("families: \(idle) bytes an idle one, \(countedIdle) counted; \(cold) a cold one, \(countedCold) counted")
      #expect(idle <= 2_048, "\(idle) bytes an idle family")
      #expect(cold <= 8_192, "\(cold) bytes a family with one record")
      // The log's segment and the names are included in the measurement, but are counted elsewhere or all at once.
      #expect(countedIdle * 5 / 4 >= idle, "\(idle) bytes an idle family, \(countedIdle) counted")
      #expect(countedCold * 5 / 4 >= cold, "\(cold) bytes a cold family, \(countedCold) counted")
      #expect(countedCold <= 8_192)
    }

    @Test(arguments: ["flushed", "logged"])
    func `families that were loaded and opened again take eight KiB each after a read, and that memory is counted`(
      kind: String
    ) throws {
      let directory = try TemporaryDirectory()
      let (path, count, rows) = (directory.path + "/db", 3_000 as UInt64, 10)
      #expect(try numbers(["fill", path, "\(count)", "\(rows)", kind]).isEmpty)
      let numbers = try numbers(["reopen", path, "\(rows)"])
      try #require(numbers.count == 7, "the process died")
      let opened = (numbers[1] - min(numbers[0], numbers[1])) / count
      let read = (numbers[2] - min(numbers[0], numbers[2])) / count
      let countedOpened = (numbers[4] - numbers[3]) / count
      let countedRead = (numbers[5] - numbers[3]) / count
      print(
        "\(kind) families: \(opened) bytes each when opened, \(countedOpened) counted; \(read) after a read, "
          + "\(countedRead) counted")
      #expect(numbers[6] == count)
      #expect(read > 1_024 && read <= 8_192, "\(read) bytes a family after a read")
      #expect(countedOpened * 5 / 4 >= opened, "\(opened) bytes a family, \(countedOpened) counted")
      #expect(countedRead * 5 / 4 >= read, "\(read) bytes a family after a read, \(countedRead) counted")
      #expect(countedRead <= 8_192)
    }

    @Test func `ten thousand families are made, written, flushed and opened again`() throws {
      let directory = try TemporaryDirectory()
      let count: UInt64 = 9_999
      let numbers = try numbers(["lives", directory.path + "/db", "\(count)"])
      try #require(numbers.count == 8, "the process died")
      let names = ["make", "write", "flush", "close", "open", "close unflushed", "open unflushed"]
      // The times are printed and not checked, because test machines are sometimes slow.
      print(zip(names, numbers).map { "\($0) \($1 / 1_000) ms" }.joined(separator: ", "))
      #expect(numbers[7] == 2 * count, "every entry is there")
    }
  }
#endif
