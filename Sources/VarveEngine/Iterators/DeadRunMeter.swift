/// Measures how far a reader scanned without finding a live key, and keeps the longest such run.
///
/// A scan that passes a run has proved that, at its sequence number, no key lives from the run's first key up to its
/// end, because it has read all sources. So one range tombstone may replace all entries there (`DeadRuns`), and the
/// next scan passes the run by a seek.
///
/// # What counts
/// A dead key counts as one. A range under a range tombstone counts as `hopWeight`, once for all sources that skip to
/// its end: many small ranges are merged into one, and a single large one is not a reason for another tombstone.
///
/// # What a hop proves
/// A hop skips a range in one source; the other sources are read later. So the end of a run is never after the
/// position that the scan has reached.
///
/// # Costs
/// An iterator creates a meter when it meets a dead key; others have none. Within a run, the scan increments a
/// counter of its own for each key.
final class DeadRunMeter {
  /// What a forward scan passed last.
  enum End {
    /// A dead key.
    case key
    /// A range under a range tombstone, skipped in one source.
    case hop
    /// Whole blocks, whose last key was not read. No source has an entry before their end.
    case blocks
  }

  static let hopWeight = 16

  private let minimum: Int
  /// The key at which the scan began the run.
  private var start = ByteWriter(capacity: 0)
  /// The key up to which the last hop went.
  private var edge = ByteWriter(capacity: 0)
  /// Whether the backward scan has hopped from its current key.
  private var hasHopped = false
  /// The keys of known dead ranges in the present run.
  private var knownCount = 0
  private var longestCount = 0
  private var longestKnownCount = 0
  private var lower = ByteWriter(capacity: 0)
  private var upper = ByteWriter(capacity: 0)

  /// Creates a meter that keeps runs of at least `minimum`.
  init(minimum: Int) { self.minimum = minimum }

  /// A range from `lower` (included) to `upper` (excluded) in which a scan found no live key.
  struct Run: Sendable {
    let lower: [UInt8]
    let upper: [UInt8]
    /// What the scan passed, as "What counts" says.
    let count: Int
    /// The keys of the known dead ranges that the scan passed.
    let knownCount: Int

    var passedCount: Int { count + knownCount }
  }

  /// Returns the longest run since the last call, if there is one.
  func takeLongest() -> Run? {
    guard longestCount > 0 else { return nil }
    defer { longestCount = 0 }
    return Run(
      lower: lower.view.bytes, upper: upper.view.bytes, count: longestCount - longestKnownCount,
      knownCount: longestKnownCount)
  }

  // MARK: - Forward

  /// Begins a run with a dead key.
  func begin(_ key: ByteView) {
    Self.assign(&start, key)
    knownCount = 0
  }

  /// Notes that the scan skips a known dead range of about `count` keys.
  func passKnown(_ count: Int) { knownCount += count }

  /// Notes that a source skipped to `end`, and returns what the hop counts. `isAfterHop` says that the scan made
  /// another hop just before.
  func hop(to end: ByteView, isAfterHop: Bool) -> Int {
    if isAfterHop, edge.view == end { return 0 }
    Self.assign(&edge, end)
    return Self.hopWeight
  }

  /// Ends the run after the dead key `last`, unless `end` says otherwise.
  ///
  /// `next` is the first entry that the scan has not passed, or nil if there are no more.
  func end(_ passed: Int, last: ByteView, _ end: End, next: ByteView?) {
    let count = passed + knownCount
    guard count >= minimum, count > longestCount else { return }
    switch end {
    case .blocks where next != nil: if let next { Self.assign(&upper, next) }
    case .hop: Self.assign(&upper, next.map { min($0, edge.view) } ?? edge.view)
    case .key, .blocks:
      Self.assign(&upper, last)
      upper.append(repeating: 0, count: 1)
    }
    Self.assign(&lower, start.view)
    note(count)
  }

  // MARK: - Backward

  /// Notes that `key` is dead and that the scan is before it.
  func passBackward(_ count: inout Int, _ key: ByteView) {
    count &+= 1
    if count == 1 { assignStart(after: key) }
    // A hop from this key has set the edge already.
    if count > 0, !hasHopped { Self.assign(&edge, key) }
    hasHopped = false
  }

  /// Notes that a source skipped from the dead entry of `key` back to `begin`.
  func hopBackward(_ count: inout Int, _ key: ByteView, to begin: ByteView) {
    if count <= 0 { assignStart(after: key) }
    defer { hasHopped = true }
    if count > 0, edge.view == begin { return }
    count = max(count, 0) + Self.hopWeight
    Self.assign(&edge, begin)
  }

  private func assignStart(after key: ByteView) {
    Self.assign(&start, key)
    start.append(repeating: 0, count: 1)
    knownCount = 0
  }

  /// Ends the run. `next` is the last key that the scan has not found dead if `isLive`, or otherwise the start of the
  /// scan's bounds; nil if there are no more keys.
  func endBackward(_ passed: Int, next: ByteView?, isLive: Bool) {
    hasHopped = false
    let count = passed + knownCount
    guard count >= minimum, count > longestCount else { return }
    Self.assign(&lower, edge.view)
    if let next, lower.view <= next {
      Self.assign(&lower, next)
      if isLive { lower.append(repeating: 0, count: 1) }
    }
    Self.assign(&upper, start.view)
    note(count)
  }

  /// Notes the run from `lower` to `upper` as the longest one, or that no run was found if it is empty.
  private func note(_ count: Int) {
    let isEmpty = upper.view <= lower.view
    longestCount = isEmpty ? 0 : count
    longestKnownCount = isEmpty ? 0 : knownCount
  }

  private static func assign(_ target: inout ByteWriter, _ bytes: ByteView) {
    target.removeAll()
    target.append(bytes)
  }
}

/// Decides when a scan over dead keys looks for a known dead range, and counts what it steps over.
struct DeadScan {
  /// The number of dead keys between two looks.
  private static let distance = 16

  private var next = Self.distance
  private var count = 0

  /// Counts a dead key, and returns whether to look. `dead` is the length of the run so far.
  @inline(__always)
  mutating func shouldLook(_ dead: Int) -> Bool {
    count &+= 1
    if dead < Self.distance { next = Self.distance }
    guard dead >= next else { return false }
    next = dead &+ Self.distance
    return true
  }

  /// Ends the scan.
  @inline(__always)
  func end(_ ranges: DeadRanges?) {
    if count >= Self.distance { ranges?.notePassed(count) }
  }
}
