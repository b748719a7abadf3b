/// A position in the write-ahead log as a whole: a count of bytes that only grows while the engine is open, over
/// all segments. It means nothing in another process or after the engine was opened again.
struct LogPosition: Hashable, Comparable, Sendable {
  let value: UInt64

  @inline(__always)
  init(_ value: UInt64) { self.value = value }

  /// Before every record. Also what a commit that was not logged has.
  static let zero = LogPosition(0)

  @inline(__always)
  static func < (left: LogPosition, right: LogPosition) -> Bool { left.value < right.value }
  /// The position of an offset in a segment that begins at `base`.
  @inline(__always)
  static func + (base: LogPosition, offset: Int) -> LogPosition { LogPosition(base.value &+ UInt64(offset)) }
  /// The bytes between two positions. Requires: `left` is not before `right`.
  static func - (left: LogPosition, right: LogPosition) -> UInt64 { left.value - right.value }
}
