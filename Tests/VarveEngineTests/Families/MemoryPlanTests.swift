import Foundation
import Testing

@testable import VarveEngine

struct MemoryPlanTests {
  private static let mebibyte = 1 << 20

  private func plan(_ change: (inout EngineOptions) -> Void) throws -> MemoryPlan {
    var options = EngineOptions()
    change(&options)
    try options.validate()
    return try options.memoryPlan()
  }

  @Test func `the default memory budget is 512 MiB`() throws {
    let plan = try plan { _ in }
    #expect(plan.limit == 512 * Self.mebibyte)
    #expect(plan.memtableSize == 64 * Self.mebibyte)
    #expect(plan.logSegmentSize == 32 * Self.mebibyte)
    #expect(plan.tableSize == UInt64(32 * Self.mebibyte))
  }

  @Test func `memtables and segments are cut for a small device, unless the options set them`() throws {
    func fitted(_ diskSize: UInt64?, _ options: EngineOptions = EngineOptions()) throws -> MemoryPlan {
      var plan = try options.memoryPlan()
      plan.fit(options, diskSize: diskSize)
      return plan
    }
    let usual = try fitted(nil)
    #expect(try fitted(1 << 40) == usual)
    #expect(try fitted(UInt64(usual.memtableSize) * 64) == usual)
    let small = try fitted(256 << 20)
    #expect(small.memtableSize == 4 << 20 && small.logSegmentSize == 2 << 20)
    #expect(small.limit == usual.limit)
    let smallest = try fitted(1 << 20)
    #expect(smallest.memtableSize == 1 << 20 && smallest.logSegmentSize == 512 << 10)
    var options = EngineOptions()
    options.memtableSize = 16 << 20
    #expect(try fitted(256 << 20, options) == options.memoryPlan())
  }

  @Test func `tables grow with their level, from the base level on`() throws {
    let mebibyte = UInt64(Self.mebibyte)
    let picker = try plan { _ in }.pickerOptions(threadCount: 2)
    #expect((1..<7).map { picker.targetFileSize(level: $0, baseLevel: 6) / mebibyte } == [32, 32, 32, 32, 32, 32])
    #expect((1..<7).map { picker.targetFileSize(level: $0, baseLevel: 2) / mebibyte } == [32, 32, 64, 128, 256, 256])
    let small = try plan { $0.memoryBudget = 16 * Self.mebibyte }
    #expect(small.tableSize == 4 * mebibyte && small.tableSizeMaximum == 32 * mebibyte)
    #expect(small.pickerOptions(threadCount: 2).targetFileSize(level: 6, baseLevel: 1) == 32 * mebibyte)
    #expect(small.builderBytesMaximum(threadCount: 4) == 4 * Self.mebibyte)
  }

  @Test func `a merge has as many runs of level 0 as there are buffers for`() throws {
    #expect(try plan { _ in }.pickerOptions(threadCount: 2).runCountMaximum == 1_024)
    for budget in [1, 4, 8, 16, 64, 512] {
      for threads in 1...8 {
        let plan = try plan { $0.memoryBudget = budget * Self.mebibyte }
        let count = plan.pickerOptions(threadCount: threads).runCountMaximum
        let bytes = count * plan.readAheadSize(runCount: count, threadCount: threads) * threads
        #expect(count == 24 || bytes <= plan.compactionBytes / 2, "budget \(budget) MiB, \(threads) threads")
      }
    }
  }

  @Test func `open tables are bounded by the budget and by descriptors alone`() throws {
    let plan = try plan { $0.memoryBudget = 512 * Self.mebibyte }
    #expect(plan.openTableBytes == 64 * Self.mebibyte)
    #expect(plan.openTableCount == max(DescriptorLimit.forTables, OpenTables.countMinimum))
  }

  @Test func `the limit of descriptors is raised where the options say so, and not otherwise`() async {
    await #expect(processExitsWith: .success) {
      func limit() -> rlimit {
        var limit = rlimit()
        #if canImport(Glibc)
          unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        #else
          unsafe getrlimit(RLIMIT_NOFILE, &limit)
        #endif
        return limit
      }
      var low = limit()
      try #require(low.rlim_max > 300)
      low.rlim_cur = 300
      #if canImport(Glibc)
        unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &low)
      #else
        unsafe setrlimit(RLIMIT_NOFILE, &low)
      #endif
      var options = EngineOptions()
      try Engine.open(at: "/db", options: options, environment: .inMemory()).close()
      #expect(limit().rlim_cur == 300)
      options.raisesDescriptorLimit = true
      try Engine.open(at: "/db", options: options, environment: .inMemory()).close()
      #expect(limit().rlim_cur > 300)
      #expect(try options.memoryPlan().openTableCount == DescriptorLimit.forTables)
    }
  }

  @Test func `the parts of every budget fit into it`() throws {
    for budget in [1, 2, 3, 7, 32, 64, 100, 256, 1_000, 4_096, 100_000].map({ $0 * Self.mebibyte }) {
      let plan = try plan { $0.memoryBudget = budget }
      #expect(plan.limit == budget)
      let parts = 4 * plan.memtableSize + 2 * plan.logSegmentSize + plan.compactionBytes + plan.cacheFloor
      #expect(parts <= budget, "\(plan)")
      #expect(plan.cacheFloor > 0 && plan.cacheMaximum == .max)
      #expect(plan.memtableSize <= 64 * Self.mebibyte && plan.memtableSize * 8 >= min(budget, 512 * Self.mebibyte) / 2)
      #expect(plan.readAheadSize(runCount: 1, threadCount: 2) <= 512 << 10)
    }
  }

  @Test func `explicit sizes are taken as they are, and the rest fits beside them`() throws {
    let budget = 64 * Self.mebibyte
    let withCache = try plan {
      $0.memoryBudget = budget
      $0.cacheSize = 40 * Self.mebibyte
    }
    #expect(withCache.cacheFloor == 40 * Self.mebibyte && withCache.cacheMaximum == 40 * Self.mebibyte)
    #expect(withCache.memtableSize == 4 * Self.mebibyte)
    let withMemtable = try plan {
      $0.memoryBudget = budget
      $0.memtableSize = 2 * Self.mebibyte
      $0.logSegmentSize = Self.mebibyte
      $0.openTableCount = 100
    }
    #expect(withMemtable.memtableSize == 2 * Self.mebibyte && withMemtable.logSegmentSize == Self.mebibyte)
    #expect(withMemtable.openTableCount == 100 && withMemtable.cacheMaximum == .max)
  }

  @Test func `without an explicit budget the budget is the sum of the explicit sizes`() throws {
    let plan = try plan {
      $0.memtableSize = 64 * Self.mebibyte
      $0.cacheSize = 512 * Self.mebibyte
    }
    #expect(plan.limit == (4 * 64 + 64 + 64 + 512) * Self.mebibyte)
    #expect(plan.cacheFloor == 512 * Self.mebibyte && plan.cacheMaximum == plan.cacheFloor)
  }

  @Test func `sizes that do not fit the budget are refused at open, by name`() throws {
    let changes: [(inout EngineOptions) -> Void] = [
      { $0.memtableSize = 16 << 20 }, { $0.cacheSize = 64 << 20 }, { $0.logSegmentSize = 32 << 20 },
      {
        $0.memtableSize = 8 << 20
        $0.cacheSize = 32 << 20
      },
      { $0.cacheSize = Int.max },
    ]
    let fileSystem = MemoryFileSystem()
    var environment = EngineEnvironment.inMemory()
    environment.fileSystem = fileSystem
    for change in changes {
      var options = EngineOptions()
      options.memoryBudget = 64 << 20
      change(&options)
      let error = #expect(throws: EngineError.self) {
        try Engine.open(at: "/db", options: options, environment: environment)
      }
      #expect(error?.code == .invalidArgument && error?.message.contains("memoryBudget") == true)
      #expect(try fileSystem.list("/").isEmpty)
    }
    var options = EngineOptions()
    options.cacheSize = Int.max
    let error = #expect(throws: EngineError.self) { try options.validate() }
    #expect(error?.message.contains("cacheSize") == true)
  }
}
