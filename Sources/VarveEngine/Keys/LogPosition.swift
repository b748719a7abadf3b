/// A position in the write-ahead log as a whole: a count of bytes over all segments, which only grows while the
/// engine is open.
///
/// A position is meaningless in another process, or after the engine was opened again.
struct LogPosition: Hashable, Comparable, Sendable {
  let value: UInt64

  @inline(__always)
  init(_ value: UInt64) { self.value = value }

  /// The position before every record. A commit that was not logged has it, too.
  static let zero = LogPosition(0)

  @inline(__always)
  static func < (left: LogPosition, right: LogPosition) -> Bool { left.value < right.value }
  /// Returns the position of an offset in a segment that begins at `base`.
  @inline(__always)
  static func + (base: LogPosition, offset: Int) -> LogPosition { LogPosition(base.value &+ UInt64(offset)) }
  /// Returns the number of bytes between two positions. Requires that `left` is not before `right`.
  static func - (left: LogPosition, right: LogPosition) -> UInt64 { left.value - right.value }
}
