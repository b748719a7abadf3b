import Testing

@testable import ObjectFixtures
@testable import Varve

/// The states of a subscription's buffer.
struct ChangeBufferTests {
  private static func event(_ version: UInt64, rows: Int = 0) -> ChangeEvent {
    var changed = ChangeSet.Rows()
    for row in 0..<rows { changed.states.set(RowState(.inserted, before: nil), for: BigEndian.bytes(UInt32(row))) }
    return .changes(
      ChangeSet(
        version: CommitVersion(version), time: 0, label: nil, isEverythingCleared: false, isFromFeed: false,
        collections: rows == 0 ? [:] : ["rows": changed], custom: nil, extensions: ExtensionReports()))
  }

  private static func page(_ versions: [UInt64], at version: UInt64, isComplete: Bool = true) -> FeedPage {
    FeedPage(events: versions.map { event($0) }, version: CommitVersion(version), isComplete: isComplete)
  }

  /// Returns the buffer's next action as text.
  private func step(_ buffer: inout ChangeBuffer) -> String {
    switch buffer.next() {
    case .give(.changes(let changes)): "\(changes.version)"
    case .give(.gap(let from, let to)): "gap \(from) \(to)"
    case .read(let position): "read \(position)"
    case .wait: "wait"
    case .fail: "fail"
    case .end: "end"
    }
  }

  private func steps(_ buffer: inout ChangeBuffer, _ count: Int) -> [String] {
    (0..<count).map { _ in step(&buffer) }
  }

  @Test func `events are returned in order, and then the buffer waits`() {
    var buffer = ChangeBuffer(after: CommitVersion(10), capacity: 8)
    #expect(step(&buffer) == "wait")
    for version: UInt64 in [11, 14, 15] { buffer.add(Self.event(version)) }
    #expect(steps(&buffer, 4) == ["11", "14", "15", "wait"])
  }

  @Test func `events that are not after the start are left out`() {
    var buffer = ChangeBuffer(after: CommitVersion(10), capacity: 8)
    for version: UInt64 in [9, 10, 12] { buffer.add(Self.event(version)) }
    #expect(steps(&buffer, 2) == ["12", "wait"])
  }

  @Test func `events past the capacity are read from the feed, after those that were kept`() {
    var buffer = ChangeBuffer(after: CommitVersion(0), capacity: 2)
    for version: UInt64 in 1...5 { buffer.add(Self.event(version)) }
    #expect(steps(&buffer, 3) == ["1", "2", "read 2"])
    // From here on, the buffer keeps events again; the page contains some of them too.
    buffer.add(Self.event(6))
    buffer.add(Self.event(7))
    buffer.didRead(Self.page([3, 4, 5, 6], at: 6))
    #expect(steps(&buffer, 6) == ["3", "4", "5", "6", "7", "wait"])
  }

  @Test func `a page that is not the last is followed by another`() {
    var buffer = ChangeBuffer(after: CommitVersion(0), isLagging: true, capacity: 2)
    #expect(step(&buffer) == "read 0")
    buffer.add(Self.event(9))
    buffer.didRead(Self.page([1, 2], at: 9, isComplete: false))
    #expect(steps(&buffer, 3) == ["1", "2", "read 2"])
    buffer.didRead(Self.page([9], at: 9))
    buffer.add(Self.event(10))
    #expect(steps(&buffer, 3) == ["9", "10", "wait"])
  }

  @Test func `an overflow while a page is read leads back to the feed`() {
    var buffer = ChangeBuffer(after: CommitVersion(0), isLagging: true, capacity: 1)
    #expect(step(&buffer) == "read 0")
    for version: UInt64 in [2, 3] { buffer.add(Self.event(version)) }
    buffer.didRead(Self.page([1], at: 1))
    #expect(steps(&buffer, 3) == ["1", "2", "read 2"])
  }

  @Test func `without the feed one gap replaces the events past the capacity`() {
    var buffer = ChangeBuffer(after: CommitVersion(0), capacity: 2, readsFeed: false)
    for version: UInt64 in 1...5 { buffer.add(Self.event(version)) }
    #expect(steps(&buffer, 4) == ["1", "2", "gap 2 5", "wait"])
    buffer.add(Self.event(6))
    #expect(steps(&buffer, 2) == ["6", "wait"])
  }

  @Test func `without the feed a lagging consumer that has caught up receives no empty gap`() {
    // The consumer lags only because of its start version: no commit has followed.
    var fresh = ChangeBuffer(
      after: CommitVersion(5), isLagging: true, newest: CommitVersion(5), capacity: 2, readsFeed: false)
    #expect(steps(&fresh, 2) == ["wait", "wait"])
    fresh.add(Self.event(6))
    #expect(steps(&fresh, 2) == ["6", "wait"])
    // The consumer lags because of an overflow, and the last event that was kept reaches as far as those that were
    // dropped.
    var full = ChangeBuffer(after: CommitVersion(5), capacity: 1, readsFeed: false)
    full.add(.gap(from: CommitVersion(5), to: CommitVersion(9)))
    full.add(Self.event(9))
    #expect(steps(&full, 3) == ["gap 5 9", "wait", "wait"])
    full.add(Self.event(10))
    full.add(Self.event(11))
    #expect(steps(&full, 3) == ["10", "gap 10 11", "wait"])
  }

  @Test func `a gap that was reported in part is extended to the rest`() {
    var buffer = ChangeBuffer(after: CommitVersion(5), capacity: 2)
    buffer.add(.gap(from: CommitVersion(1), to: CommitVersion(4)))
    buffer.add(.gap(from: CommitVersion(3), to: CommitVersion(8)))
    #expect(steps(&buffer, 2) == ["gap 5 8", "wait"])
  }

  @Test func `a database that was restored to an earlier version is followed from there`() {
    var buffer = ChangeBuffer(after: CommitVersion(100), isLagging: true, capacity: 2)
    #expect(step(&buffer) == "read 100")
    buffer.didRead(
      FeedPage(events: [.gap(from: CommitVersion(100), to: CommitVersion(50))], version: CommitVersion(50)))
    buffer.add(Self.event(51))
    #expect(steps(&buffer, 3) == ["gap 100 50", "51", "wait"])
  }

  @Test func `rows are bounded too, except for a single event that exceeds the limit`() {
    let most = ChangeLimits.bufferedRows
    var buffer = ChangeBuffer(after: .zero, capacity: 100)
    buffer.add(Self.event(1, rows: most + 1))
    buffer.add(Self.event(2, rows: 1))
    #expect(steps(&buffer, 2) == ["1", "read 1"])
    buffer.didRead(Self.page([2], at: 2))
    buffer.add(Self.event(3, rows: most))
    #expect(steps(&buffer, 3) == ["2", "3", "wait"])
  }

  @Test func `events that were kept are still returned after the end, and after a failure`() {
    var ended = ChangeBuffer(after: .zero, capacity: 2)
    ended.add(Self.event(1))
    ended.end()
    ended.add(Self.event(2))
    #expect(steps(&ended, 3) == ["1", "end", "end"])
    var failed = ChangeBuffer(after: .zero, capacity: 1)
    for version: UInt64 in [1, 2] { failed.add(Self.event(version)) }
    failed.fail(Stop())
    #expect(steps(&failed, 3) == ["1", "fail", "end"])
  }
}
