import EngineTestSupport
import Testing

@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of the costs of a put that a clock does not show: system calls and allocations, counted in a separate
/// process.
struct PutCostTests {
  /// The numbers that `varve-put-target` reports about its puts.
  private struct Report {
    let countedAnything: Bool
    let allocations: UInt64
    let entries: [UInt64]
    let logBytes: [UInt64]

    init(_ child: ChildProcess) throws {
      let numbers = try (0..<6).map { _ in try #require(child.nextNumber(), "the program ended early") }
      countedAnything = numbers[0] > 0
      allocations = numbers[1]
      entries = Array(numbers[2...3])
      logBytes = Array(numbers[4...5])
    }
  }

  private static let countsAllocations: Bool = {
    #if canImport(Glibc) && !DEBUG
      return unsafe dlsym(nil, "__tsan_init") == nil && dlsym(nil, "__asan_init") == nil
    #else
      return false
    #endif
  }()

  /// The number of puts after which an 8 MiB segment of the log is half full, and the memtable is one sixth full.
  private static let warmUp = 70_000

  @Test(.enabled(if: Strace.isUsable, "strace is not there, or may not trace"), arguments: [10_000, 20_000])
  func `puts inside one memtable and one segment make no system call`(count: Int) throws {
    let directory = try TemporaryDirectory()
    let trace = directory.path + "/trace"
    let program = try ChildProcess.built("varve-put-target")
    let child = try ChildProcess(
      Strace.path, ["-f", "-o", trace, program, directory.path + "/db", "\(Self.warmUp)", "\(count)"])
    let report = try Report(child)
    #expect(child.succeeds())
    // Otherwise the puts were not those that the test is about: all of them must go to the same memtable and segment.
    #expect(report.entries == [UInt64(Self.warmUp), UInt64(Self.warmUp + count)])
    #expect(report.logBytes[0] == report.logBytes[1])
    let calls = try Strace.callsBetweenMarks(trace, mark: "getppid(")
    #expect(calls == [], "\(calls.count) system calls for \(count) puts")
  }

  @Test(
    .enabled(if: countsAllocations, "allocations are counted in optimized code, with glibc, and not beside a sanitizer")
  )
  func `puts inside one memtable and one segment allocate nothing`() throws {
    let directory = try TemporaryDirectory()
    let program = try ChildProcess.built("varve-put-target")
    let child = try ChildProcess(program, [directory.path + "/db", "\(Self.warmUp)", "10000"])
    let report = try Report(child)
    #expect(child.succeeds())
    #expect(report.entries == [UInt64(Self.warmUp), UInt64(Self.warmUp + 10_000)])
    #expect(report.countedAnything, "an array of the program was not counted")
    #expect(report.allocations == 0, "the standard error shows where")
  }

  @Test(.enabled(if: Strace.isUsable, "strace is not there, or may not trace"))
  func `five million puts, flushes and compactions beside them, call the system less than once in 5,000`() throws {
    let count = 5_000_000
    let directory = try TemporaryDirectory()
    let trace = directory.path + "/trace"
    let program = try ChildProcess.built("varve-put-target")
    let child = try ChildProcess(Strace.path, ["-f", "-o", trace, program, directory.path + "/db", "0", "\(count)"])
    _ = try Report(child)
    #expect(child.succeeds())
    let calls = try Strace.callsBetweenMarks(trace, mark: "getppid(")
    let all = try Strace.callsBetweenMarks(trace, mark: "getppid(", ofAllThreads: true)
    // A thread that waits for others, which are slow on a busy machine, sleeps as often as necessary.
    func working(_ calls: [Substring]) -> Int {
      calls.count { !$0.contains("clock_nanosleep(") && !$0.contains("futex(") }
    }
    print(
      "put cost: \(working(calls)) system calls of the writing thread for \(count) puts, \(calls.count) with those",
      "that wait, \(all.count) of all threads")
    #expect(working(calls) < count / 5_000)
    // The background threads write tables, and write zeros ahead of the log, in pieces.
    #expect(working(all) < count / 50)
  }
}

/// The tracer of system calls, if it is installed.
private enum Strace {
  static let path = "/usr/bin/strace"

  static let isUsable: Bool = {
    guard unsafe access(path, X_OK) == 0, let child = try? ChildProcess(path, ["-o", "/dev/null", "/bin/true"]) else {
      return false
    }
    return child.succeeds()
  }()

  private static func lines(_ path: String) throws -> [Substring] {
    let file = try PosixFileSystem().openFile(path, writable: false)
    defer { file.close() }
    let size = Int(try file.size())
    var bytes = [UInt8](repeating: 0, count: size)
    let count = try unsafe bytes.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: 0) }
    return String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n")
  }

  /// Returns the calls of the thread that made the marks, or of all threads, between the first and the last mark.
  ///
  /// A line is a thread's number and a call; a call that other threads interrupted continues in a second line.
  static func callsBetweenMarks(_ path: String, mark: String, ofAllThreads: Bool = false) throws -> [Substring] {
    let lines = try lines(path)
    let marks = lines.indices.filter { lines[$0].contains(mark) }
    try #require(marks.count == 2, "\(marks.count) marks in the trace")
    let thread = try #require(lines[marks[0]].split(separator: " ").first)
    return lines[(marks[0] + 1)..<marks[1]].filter { line in
      (ofAllThreads || line.hasPrefix(thread + " ")) && !line.contains("resumed>")
    }
  }
}
