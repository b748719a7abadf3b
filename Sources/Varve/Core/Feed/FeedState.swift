/// The size and age of the feed's segments. This is all that a commit needs to keep the feed within its bounds without
/// reading it.
///
/// ```
///  gone │ closed segment │ closed segment │ ... │ open segment ─▶ the next commit
///       └ trimmedThrough                        └ closedThrough
/// ```
/// A segment is a sixteenth of the maximum size of the feed, or a twenty-fourth of its maximum age. When the open
/// segment has reached either, the next commit closes it, and trims the oldest segments that exceed the bounds, by one
/// range deletion in its own batch: one commit in thousands pays a microsecond, and none reads anything.
///
/// The closed segments are all in the record (`FeedRecord`). Each entry of the open segment contains the number of
/// bytes before it, so that opening reads its first and its last entry.
///
/// # Invariants
/// 1. The feed contains every commit after `record.trimmedThrough` that reported something, completely.
/// 2. The feed exceeds its maximum size by at most one commit, and after a commit nothing in it is older than its
///    maximum age.
struct FeedState: Equatable {
  struct Bounds: Equatable {
    let size: UInt64
    let age: Int64

    init(_ options: FeedOptions) {
      size = UInt64(options.sizeMaximum)
      age = max(1, options.ageMaximum.components.seconds)
    }

    var segmentSize: UInt64 { size / UInt64(ChangeLimits.segmentsBySize) }
    var segmentAge: Int64 { max(1, age / Int64(ChangeLimits.segmentsByAge)) }
  }

  /// The segment to which the next commit is added.
  struct Open: Equatable {
    var size: UInt64 = 0
    var last = CommitVersion.zero
    var firstTime: Int64 = 0
    var lastTime: Int64 = 0
  }

  var record = FeedRecord()
  var open = Open()

  /// The number of bytes of the feed.
  var size: UInt64 { record.segments.reduce(open.size) { $0 + $1.size } }

  /// The changes of a commit to the feed before it adds its entry.
  struct Step: Equatable {
    /// The range of entries that are trimmed.
    var trimmed: StorageRange?
    /// Whether the record has changed.
    var hasNewRecord = false
  }

  /// Prepares the feed for a commit at a time.
  mutating func prepare(now: Int64, _ bounds: Bounds) -> Step {
    guard open.size > 0 else { return Step() }
    // If the clock was set back, the remaining time counts from the new time.
    open.firstTime = min(open.firstTime, now)
    guard open.size >= bounds.segmentSize || now - open.firstTime >= bounds.segmentAge else { return Step() }
    close()
    var step = Step(hasNewRecord: true)
    let before = record.trimmedThrough
    trim(now: now, bounds)
    if record.trimmedThrough > before { step.trimmed = FeedKey.range(after: before, through: record.trimmedThrough) }
    return step
  }

  /// Adds the entries of a commit.
  mutating func add(size: UInt64, version: CommitVersion, now: Int64) {
    if open.size == 0 { open.firstTime = now }
    open.size += size
    open.last = version
    open.lastTime = now
  }

  private mutating func close() {
    let closed = FeedRecord.Segment(last: open.last, size: open.size, time: open.lastTime)
    open = Open()
    // Only a clock that jumps causes so many segments; the last two are then merged.
    if record.segments.count == ChangeLimits.segmentsMaximum, let last = record.segments.popLast() {
      record.segments.append(
        FeedRecord.Segment(last: closed.last, size: last.size + closed.size, time: max(last.time, closed.time)))
    } else {
      record.segments.append(closed)
    }
  }

  private mutating func trim(now: Int64, _ bounds: Bounds) {
    // The entries that are added until the next segment is closed must fit, too.
    let limit = bounds.size - bounds.segmentSize
    var rest = size
    var count = 0
    while rest > limit, count < record.segments.count {
      rest -= record.segments[count].size
      count += 1
    }
    // Until the next segment is closed, everything ages by the duration of a segment, and the first entry of a segment
    // is older than its last by up to as much. The newest expired segment is trimmed together with all segments before
    // it, which may have later times if the clock was set back since.
    let oldest = now - bounds.age + 2 * bounds.segmentAge
    if let expired = record.segments.lastIndex(where: { $0.time < oldest }) { count = max(count, expired + 1) }
    guard count > 0 else { return }
    record.trimmedThrough = record.segments[count - 1].last
    record.segments.removeFirst(count)
  }
}
