#if os(Linux)
  import EngineTestSupport
  import Glibc
  import Testing

  @testable import VarveEngine

  /// Tests of which parts of the log are mapped, according to the system.
  struct LogMappingTests {
    /// Returns how many mappings of this process are of segments below `directory`.
    private static func mappingCount(below directory: String) throws -> Int {
      guard let maps = unsafe fopen("/proc/self/maps", "r") else {
        throw EngineError(.inputOutput, "no /proc/self/maps")
      }
      defer { unsafe _ = fclose(maps) }
      var line = [CChar](repeating: 0, count: 8_192)
      var count = 0
      while unsafe fgets(&line, Int32(line.count), maps) != nil {
        let text = line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        let line = String(decoding: text, as: UTF8.self)
        if line.contains(directory), line.contains(".log") { count += 1 }
      }
      return count
    }

    @Test func `at most two segments are mapped, however many are kept`() throws {
      let directory = try TemporaryDirectory()
      try write(below: directory.path)
      // The last mapping ends with the engine.
      #expect(try Self.mappingCount(below: directory.path) == 0)
    }

    private func write(below directory: String) throws {
      var options = EngineOptions()
      options.memtableSize = 4 << 20
      options.logSegmentSize = 64 << 10
      let engine = try Engine.open(at: directory + "/db", options: options)
      guard engine.core.background.pipeline.log.usesMapping else { return }
      var largest = 0
      for number in 0..<6_000 {
        try engine.put([UInt8(number >> 8), UInt8(number & 0xff)], [UInt8](repeating: 7, count: 200))
        if number % 100 == 0 { largest = max(largest, try Self.mappingCount(below: directory)) }
      }
      #expect(engine.statistics.log.segmentCount > 10)
      #expect(largest == 1 || largest == 2, "\(largest) mappings")
      try engine.close()
    }
  }
#endif
