import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of the time that an edit takes under the lock of the MANIFEST, by the number of tables.
struct EditCostTests {
  /// Times are meaningful only in optimized code without a sanitizer.
  private static let isOptimised: Bool = {
    #if DEBUG
      return false
    #else
      return unsafe dlsym(nil, "__tsan_init") == nil && dlsym(nil, "__asan_init") == nil
    #endif
  }()

  /// Returns the processor time of the calling thread, which does not depend on other threads.
  private static func processorNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  @Test(.enabled(if: isOptimised, "times are measured in optimized code, and not beside a sanitizer"))
  func `an edit of a level of 100,000 tables takes less than 200 us of processor time`() throws {
    let count = 100_000
    let fileSystem = MemoryFileSystem()
    try fileSystem.createDirectory("/db")
    let manifest = try Manifest.create(
      directory: "/db", fileSystem: fileSystem, state: try VersionModelTests.wideVersion(count: count), random: { 9 })
    var random = SeededRandom(seed: 3)
    var edits: [VersionEdit] = []
    var taken: Set<Int> = []
    // The edits are those of compactions of four tables into four, and of flushes.
    for step in 0..<500 {
      var edit = VersionEdit()
      let index = random.below(count / 4) * 4
      guard taken.insert(index).inserted else { continue }
      for offset in 0..<4 {
        edit.deleteTable(FileNumber(UInt64(index + offset + 1)), family: 0, level: 6)
        edit.addTable(
          VersionModelTests.table(UInt64(count + 10 + step * 5 + offset), at: index + offset), family: 0, level: 6)
      }
      let sequence = UInt64(step + 2)
      edit.addTable(
        Make.table(UInt64(count + 10 + step * 5 + 4), "a\(step)", "b", sequences: sequence...sequence), family: 0,
        level: 0)
      edits.append(edit)
    }
    // A reader keeps a copy of the state, as a checkpoint does.
    let copy = manifest.state
    var most: UInt64 = 0
    let start = Self.processorNanoseconds()
    for edit in edits {
      let before = Self.processorNanoseconds()
      try manifest.append(edit)
      most = max(most, Self.processorNanoseconds() - before)
    }
    let mean = (Self.processorNanoseconds() - start) / UInt64(edits.count)
    #expect(manifest.state.tableCount == count + edits.count && copy.tableCount == count)
    #expect(mean < 200_000, "\(mean) ns an edit, the longest \(most)")
  }
}
