/// The offset between the wall clock and the continuous clock, for each period in which it was constant since the
/// start.
///
/// The row of a task has only the date at which the task is due. If the task waits for a delay and the wall clock was
/// set after the row was written, this date is too early or too late. The date minus the delay is the time of day at
/// which the row was written. The offset of the period that contains this time converts the date to the continuous
/// clock, by which the delay is measured.
struct WallSpans: Sendable {
  private struct Span: Sendable {
    /// The times of day that the clock showed, in milliseconds since 1970.
    let times: ClosedRange<Int64>
    /// Wall time minus continuous time, in milliseconds.
    let offset: Int64
  }

  /// The spans of time that have ended because the clock was set, the oldest first.
  private var ended: [Span] = []
  /// The time of day at which the current span began, and its offset.
  private var begin: Int64
  private var offset: Int64

  /// The maximum number of spans that are remembered.
  private static let maximum = 16

  init(from begin: Int64, offset: Int64) {
    self.begin = begin
    self.offset = offset
  }

  /// Notes that the wall clock was set, at a time of the continuous clock at the latest. `offset` is the offset before,
  /// and `next` the one from now on.
  mutating func end(_ offset: Int64, next: Int64, at continuous: Int64) {
    let last = continuous + offset
    if begin <= last { ended.append(Span(times: begin...last, offset: offset)) }
    if ended.count > Self.maximum { ended.removeFirst() }
    begin = continuous + next
    self.offset = next
  }

  /// Returns the milliseconds of a delay that are left at a time of the continuous clock, for a row that is due at a
  /// date. Returns `nil` if it is not known what is left, or if the date shows it.
  func remaining(of delay: Int64, due: Int64, at continuous: Int64) -> Int64? {
    let written = due - delay
    if ended.isEmpty || (written >= begin && written <= continuous + offset) { return nil }
    // If the clock showed the date twice, the task must not be late.
    let past = ended.lazy.filter { $0.times.contains(written) }.map(\.offset).max()
    return past.map { max(0, min(delay, due - $0 - continuous)) }
  }
}
