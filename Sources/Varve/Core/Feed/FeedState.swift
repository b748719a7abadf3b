/// Which part of the feed is how large and how old, and what has to go: all that a commit needs to know to keep the feed
/// within its bounds, without reading it.
///
/// ```
///  gone │ closed segment │ closed segment │ ... │ open segment ─▶ the next commit
///       └ trimmedThrough                        └ closedThrough
/// ```
/// A segment is a sixteenth of the size that the feed may have, or a twenty-fourth of the age. When the open one has
/// reached either, the next commit closes it, and takes away the oldest ones that are too much, with one range delete
/// in its own batch: a commit in thousands pays a microsecond, and none reads anything.
///
/// Of the closed segments the record knows all (`FeedRecord`). Of the open one each entry says how many bytes are
/// before it, so that an open reads its first and its last entry.
///
/// # Invariants
/// 1. What is after `record.trimmedThrough` is in the feed, every commit that reported something, whole.
/// 2. The feed is at most as large as it may be, and one commit; and after a commit nothing in it is older than it may
///    be.
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

  /// The segment that the next commit goes into.
  struct Open: Equatable {
    var size: UInt64 = 0
    var last = CommitVersion.zero
    var firstTime: Int64 = 0
    var lastTime: Int64 = 0
  }

  var record = FeedRecord()
  var open = Open()

  /// How many bytes the feed has.
  var size: UInt64 { record.segments.reduce(open.size) { $0 + $1.size } }

  /// What a commit does to the feed before it adds to it.
  struct Step: Equatable {
    /// Entries that go.
    var trimmed: StorageRange?
    /// Whether the record has changed.
    var hasNewRecord = false
  }

  /// A commit is about to be made at a time.
  mutating func prepare(now: Int64, _ bounds: Bounds) -> Step {
    guard open.size > 0 else { return Step() }
    // A clock that was put back: the time that is left counts from there.
    open.firstTime = min(open.firstTime, now)
    guard open.size >= bounds.segmentSize || now - open.firstTime >= bounds.segmentAge else { return Step() }
    close()
    var step = Step(hasNewRecord: true)
    let before = record.trimmedThrough
    trim(now: now, bounds)
    if record.trimmedThrough > before { step.trimmed = FeedKey.range(after: before, through: record.trimmedThrough) }
    return step
  }

  /// Its entries were added.
  mutating func add(size: UInt64, version: CommitVersion, now: Int64) {
    if open.size == 0 { open.firstTime = now }
    open.size += size
    open.last = version
    open.lastTime = now
  }

  private mutating func close() {
    let closed = FeedRecord.Segment(last: open.last, size: open.size, time: open.lastTime)
    open = Open()
    // Only a clock that jumps makes so many; the last two are one then.
    if record.segments.count == ChangeLimits.segmentsMaximum, let last = record.segments.popLast() {
      record.segments.append(
        FeedRecord.Segment(last: closed.last, size: last.size + closed.size, time: max(last.time, closed.time)))
    } else {
      record.segments.append(closed)
    }
  }

  private mutating func trim(now: Int64, _ bounds: Bounds) {
    // What is added until the next segment is closed has to fit too.
    let limit = bounds.size - bounds.segmentSize
    var rest = size
    var count = 0
    while rest > limit, count < record.segments.count {
      rest -= record.segments[count].size
      count += 1
    }
    // Until the next one is closed everything gets older by the time of a segment, and the first entry of one is older
    // than its last by as much. The newest that is too old takes with it what is before it: that may say a later time,
    // by a clock that was put back since.
    let oldest = now - bounds.age + 2 * bounds.segmentAge
    if let expired = record.segments.lastIndex(where: { $0.time < oldest }) { count = max(count, expired + 1) }
    guard count > 0 else { return }
    record.trimmedThrough = record.segments[count - 1].last
    record.segments.removeFirst(count)
  }
}
