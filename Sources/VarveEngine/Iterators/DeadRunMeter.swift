/// Measures how far a reader walked without finding a key that is alive, and keeps the longest such run.
///
/// A walk that passes a run has proved that, at its sequence, nothing lives from the run's first key up to
/// its end: it has looked at all sources. So one range tombstone may stand for all that is there
/// (`DeadRuns`), and the next walk passes it by a seek.
///
/// # What counts
/// A key that is dead counts one. A stretch under a range tombstone counts `hopWeight`, once for all sources that
/// are passed up to its end: many small ones become one, and a large one alone is no reason for another.
///
/// # What a hop proves
/// It passes a stretch in one source; the others are looked at later. So the end of a run is never behind
/// the place that the walk has reached.
struct DeadRunMeter: ~Copyable {
  static let hopWeight = 16

  private let minimum: Int
  /// The side of the run at which the walk began it.
  private var start = ByteWriter(capacity: 0)
  /// How far the last hop went, where `endsInHop`; else the walk's last dead key says.
  private var edge = ByteWriter(capacity: 0)
  private var endsInHop = false
  /// Whether the walk backward has hopped from the key that it is at.
  private var hasHopped = false
  /// Whether the last that was passed are whole blocks, whose last key nobody has read.
  private var endsInBlocks = false
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

  /// A key is dead. `count` is of the run so far.
  @inline(__always)
  mutating func pass(_ count: inout Int, _ key: borrowing KeyBuffer) {
    count &+= 1
    endsInHop = false
    endsInBlocks = false
    if count == 1 { Self.assign(&start, key.view) }
  }

  /// A source is passed from a dead entry up to `end`.
  @inline(never)
  mutating func pass(_ count: inout Int, from key: ByteView, to end: ByteView) {
    if count == 0 { Self.assign(&start, key) }
    defer { (endsInHop, endsInBlocks) = (true, false) }
    if count > 0, endsInHop, edge.view == end { return }
    count &+= Self.hopWeight
    Self.assign(&edge, end)
  }

  /// Whole blocks of tombstones are passed in one source, and no other has anything before their end. The run has begun
  /// before.
  mutating func passBlocks(_ count: inout Int, entryCount: Int) {
    count &+= entryCount
    endsInBlocks = true
  }

  /// The run ends behind the dead key `last`. `next` is the first entry that the walk has not passed, or the
  /// end of its bounds; nil: there is no more.
  @inline(never)
  mutating func end(_ count: Int, last: ByteView, next: ByteView?) {
    guard count >= minimum, count > longestCount else { return }
    if endsInBlocks, let next {
      Self.assign(&upper, next)
    } else if endsInHop, !endsInBlocks {
      Self.assign(&upper, next.map { min($0, edge.view) } ?? edge.view)
    } else {
      Self.assign(&upper, last)
      upper.append(repeating: 0, count: 1)
    }
    Self.assign(&lower, start.view)
    if lower.view < upper.view { longestCount = count }
  }

  // MARK: - Backward

  /// A key is dead, and the walk is before it.
  mutating func passBackward(_ count: inout Int, _ key: borrowing KeyBuffer) {
    count &+= 1
    if count == 1 { assignStart(behind: key) }
    // A hop from this key has set it already.
    if count > 0, !hasHopped { Self.assign(&edge, key.view) }
    hasHopped = false
  }

  /// A source is passed from the dead entry of `key` back to `begin`.
  mutating func hopBackward(_ count: inout Int, _ key: borrowing KeyBuffer, to begin: ByteView) {
    if count <= 0 { assignStart(behind: key) }
    defer { hasHopped = true }
    if count > 0, edge.view == begin { return }
    count = max(count, 0) + Self.hopWeight
    Self.assign(&edge, begin)
  }

  private mutating func assignStart(behind key: borrowing KeyBuffer) {
    Self.assign(&start, key.view)
    start.append(repeating: 0, count: 1)
  }

  /// The run ends. `next` is the last key that the walk has not found dead, with `isLive`, or else the
  /// begin of its bounds; nil: there is no more.
  mutating func endBackward(_ count: Int, next: ByteView?, isLive: Bool) {
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
