/// The slots of a schedule that have passed, as its rules treat them. Times are in milliseconds since 1970.
///
/// The rules hold over all slots since the last one that was processed, however many there are: those without a task
/// are counted by days. If very many have a task, they are processed in portions. The first portion applies the rules,
/// and the others continue up to the slot that it has determined.
struct PassedSlots: Hashable, Sendable {
  /// The late slots that have a task, in ascending order.
  private(set) var late: [Int64] = []
  /// The last slot if it has a task and is less than a minute old.
  private(set) var onTime: Int64?
  /// The number of slots that are left out.
  private(set) var missedCount = 0
  /// The time up to which all slots are processed then.
  private(set) var last: Int64
  /// The last of the late slots that have a task and are left for other portions, or `nil` if there are none.
  private(set) var portionsEnd: Int64?

  /// Finds the slots after a time and up to now, of which at most `maximum`, at least 1, have a task now.
  ///
  /// `portionsEnd` is what an earlier portion has determined.
  ///
  /// Complexity: O(days since the time, and slots that have a task).
  init(
    _ times: CronTimes, _ rules: ScheduleRules, after last: Int64, portionsEnd: Int64?, now: Int64, atMost maximum: Int
  ) {
    self.last = last
    let (after, through) = (last.flooredSecond, now.flooredSecond)
    if let portionsEnd, portionsEnd > last {
      addLate(times, after, min(portionsEnd.flooredSecond, through), maximum)
      return
    }
    guard let newest = times.last(after: after, through: through) else { return }
    let isOnTime = newest * 1_000 > now - 60_000
    let lateEnd = isOnTime ? newest - 1 : newest
    let wanted =
      switch rules.missed {
      case .skip: 0
      case .latest: isOnTime ? 0 : 1
      case .all(let count): count
      }
    // The oldest slots within the grace period are not before the last slot.
    let oldest = rules.grace.map { max(after, (now - $0.milliseconds - 1).flooredSecond) } ?? after
    let begin = times.begin(ofLast: wanted, after: min(oldest, lateEnd), through: lateEnd)
    missedCount = times.count(after: after, through: begin)
    addLate(times, begin, lateEnd, maximum)
    if self.portionsEnd != nil { return }
    if !isOnTime {
      self.last = newest * 1_000
    } else if late.count < maximum {
      self.last = newest * 1_000
      onTime = self.last
    }
  }

  /// Adds late slots of a range, and notes whether some are left for another portion.
  private mutating func addLate(_ times: CronTimes, _ after: Int64, _ through: Int64, _ maximum: Int) {
    var end = after
    while let time = times.next(after: end), time <= through {
      if late.count == maximum { return portionsEnd = through * 1_000 }
      late.append(time * 1_000)
      last = time * 1_000
      end = time
    }
  }
}

extension Int64 {
  /// The whole second that contains a time in milliseconds.
  var flooredSecond: Int64 { self >= 0 ? self / 1_000 : (self - 999) / 1_000 }
}
