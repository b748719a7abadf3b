/// Measures how far a reader scanned without finding a key that is alive, and keeps the longest such run.
///
/// A scan that passes a run has proved that, at its sequence, nothing lives from the run's first key up to
/// its end: it has looked at all sources. So one range tombstone may stand for all that is there
/// (`DeadRuns`), and the next scan passes it by a seek.
///
/// # What counts
/// A key that is dead counts one. A range under a range tombstone counts `hopWeight`, once for all sources that
/// are passed up to its end: many small ones become one, and a large one alone is not a reason for another.
///
/// # What a hop proves
/// It passes a range in one source; the others are looked at later. So the end of a run is never after
/// the position that the scan has reached.
///
/// # Costs
/// Made by an iterator that meets a dead key; others have none. In a run, a key costs the scan a counter of its own.
final class DeadRunMeter {
  /// What a scan forward passed last.
  enum End {
    /// A dead key.
    case key
    /// A range under a range tombstone, in one source.
    case hop
    /// Whole blocks, whose last key no one has read; no source has anything before their end.
    case blocks
  }

  static let hopWeight = 16

  private let minimum: Int
  /// The side of the run at which the scan began it.
  private var start = ByteWriter(capacity: 0)
  /// How far the last hop went.
  private var edge = ByteWriter(capacity: 0)
  /// Whether the scan backward has hopped from the key that it is at.
  private var hasHopped = false
  private var longestCount = 0
  private var lower = ByteWriter(capacity: 0)
  private var upper = ByteWriter(capacity: 0)

  /// Runs from `minimum` on are kept.
  init(minimum: Int) { self.minimum = minimum }

  /// The longest run: its first key (included) and its end (excluded).
  var longest: (lower: [UInt8], upper: [UInt8])? {
    longestCount > 0 ? (lower.view.bytes, upper.view.bytes) : nil
  }

  // MARK: - Forward

  /// A run begins with a dead key.
  func begin(_ key: ByteView) { Self.assign(&start, key) }

  /// A source is passed up to `end`. Returns what that counts; `isAfterHop`: so was another one just before.
  func hop(to end: ByteView, isAfterHop: Bool) -> Int {
    if isAfterHop, edge.view == end { return 0 }
    Self.assign(&edge, end)
    return Self.hopWeight
  }

  /// The run ends after the dead key `last`, unless `end` says something else. `next` is the first entry that the scan
  /// has not passed; nil: there is no more.
  func end(_ count: Int, last: ByteView, _ end: End, next: ByteView?) {
    guard count >= minimum, count > longestCount else { return }
    switch end {
    case .blocks where next != nil: if let next { Self.assign(&upper, next) }
    case .hop: Self.assign(&upper, next.map { min($0, edge.view) } ?? edge.view)
    case .key, .blocks:
      Self.assign(&upper, last)
      upper.append(repeating: 0, count: 1)
    }
    Self.assign(&lower, start.view)
    if lower.view < upper.view { longestCount = count }
  }

  // MARK: - Backward

  /// A key is dead, and the scan is before it.
  func passBackward(_ count: inout Int, _ key: ByteView) {
    count &+= 1
    if count == 1 { assignStart(after: key) }
    // A hop from this key has set it already.
    if count > 0, !hasHopped { Self.assign(&edge, key) }
    hasHopped = false
  }

  /// A source is passed from the dead entry of `key` back to `begin`.
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
  }

  /// The run ends. `next` is the last key that the scan has not found dead, with `isLive`, or else the
  /// begin of its bounds; nil: there is no more.
  func endBackward(_ count: Int, next: ByteView?, isLive: Bool) {
    hasHopped = false
    guard count >= minimum, count > longestCount else { return }
    Self.assign(&lower, edge.view)
    if let next, lower.view <= next {
      Self.assign(&lower, next)
      if isLive { lower.append(repeating: 0, count: 1) }
    }
    Self.assign(&upper, start.view)
    if lower.view < upper.view { longestCount = count }
  }

  private static func assign(_ target: inout ByteWriter, _ bytes: ByteView) {
    target.removeAll()
    target.append(bytes)
  }
}
