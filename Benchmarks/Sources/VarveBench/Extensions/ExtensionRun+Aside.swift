import Dispatch
import Foundation
import Synchronization
import Varve

/// The row `aside`: commits made concurrently while one transaction imports rows, and while that commits.
extension ExtensionRun {
  /// The begin and the end of an operation in nanoseconds.
  private struct Span {
    let begin: UInt64
    let end: UInt64
    var duration: UInt64 { end - begin }
  }

  /// Makes independent commits one after the other, at least a hundredth as many as rows, until the import is
  /// committed.
  ///
  /// `time` is the 99th percentile of those that ended before the import's commit began.
  func asides(_ database: Database) throws -> ExtensionMeasurement {
    let handle = try database.register(OnePart(isIndependent: true), as: "part")
    try database.waitUntilReady(handle)
    let isImported = Mutex(false)
    let failure = Mutex<String?>(nil)
    let spans = Mutex<[Span]>([])
    let done = DispatchSemaphore(value: 0)
    // The import waits for an independent commit that began after it, so that even an import of few rows overlaps with
    // some.
    let isImporting = Atomic(false)
    let overlapped = DispatchSemaphore(value: 0)
    let least = max(num / 100, 1)
    Task.detached {
      var made: [Span] = []
      do {
        while made.count < least || !isImported.withLock({ $0 }) {
          let key = withUnsafeBytes(of: UInt64(made.count).bigEndian) { [UInt8]($0) }
          let overlaps = isImporting.load(ordering: .acquiring)
          let begin = Clock.now()
          try await database.commitIndependently { parts in try parts.part("entries", of: handle).put(key, key) }
          made.append(Span(begin: begin, end: Clock.now()))
          if overlaps { overlapped.signal() }
        }
      } catch {
        failure.withLock { $0 = "\(error)" }
        overlapped.signal()
      }
      spans.withLock { [made] in $0 = made }
      done.signal()
    }
    defer { isImported.withLock { $0 = true } }
    var begin: UInt64 = 0
    try database.write { tx in
      isImporting.store(true, ordering: .releasing)
      for number in 0..<num {
        let book = books.book(UInt64(number))
        try tx.set(book, key: book.id, in: Book.collection)
      }
      overlapped.wait()
      begin = Clock.now()
    }
    let committed = Span(begin: begin, end: Clock.now())
    isImported.withLock { $0 = true }
    done.wait()
    if let failure = failure.withLock({ $0 }) { throw EngineFailure(failure) }
    let all = spans.withLock { $0 }
    try require(try database.read { try $0[handle].count() }, all.count)
    let before = all.filter { $0.end < committed.begin }.map(\.duration).sorted()
    let during = all.filter { $0.end >= committed.begin && $0.begin < committed.end }.map(\.duration)
    guard let longest = before.last else { throw EngineFailure("no independent commit ended before the import") }
    func micro(_ nanoseconds: UInt64) -> Double { Double(nanoseconds) / 1e3 }
    var measured = ExtensionMeasurement(time: micro(before[before.count * 99 / 100]))
    measured.note = String(
      format: "p50 %.0f µs, longest %.0f µs of %d; in the import's commit of %.0f ms: longest %.1f ms of %d",
      micro(before[before.count / 2]), micro(longest), before.count, micro(committed.duration) / 1e3,
      micro(during.max() ?? 0) / 1e3, during.count)
    return measured
  }
}
