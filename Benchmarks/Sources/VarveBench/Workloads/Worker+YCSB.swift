/// The six core workloads of YCSB, over the keys that an earlier `fill...` left.
///
/// | | mix | keys |
/// |---|---|---|
/// | A | half reads, half updates | zipfian |
/// | B | 95 % reads, 5 % updates | zipfian |
/// | C | reads | zipfian |
/// | D | 95 % reads, 5 % inserts | latest |
/// | E | 95 % scans of 1 to 100 entries, 5 % inserts | zipfian |
/// | F | half reads, half read-modify-writes | zipfian |
extension Worker {
  private enum Step { case read, update, insert, scan, modify }

  func runYCSB(_ zipfian: Zipfian) throws {
    var index = 0
    while index < operations {
      switch step(random.next(below: 100)) {
      case .read:
        if try session.get(keys.key(readNumber(zipfian))) { found &+= 1 }
      case .update:
        try session.put(keys.key(readNumber(zipfian)), values.next(), sync: settings.sync)
        putCount &+= 1
      case .modify:
        let key = keys.key(readNumber(zipfian))
        if try session.get(key) { found &+= 1 }
        try session.put(key, values.next(), sync: settings.sync)
        putCount &+= 1
      case .insert:
        try session.put(keys.key(insertedNumber(inserted)), values.next(), sync: settings.sync)
        inserted &+= 1
        putCount &+= 1
      case .scan:
        try scan(from: readNumber(zipfian), limit: Int(random.next(below: 100)) + 1)
      }
      index &+= 1
      guard recorder.finish() else { break }
    }
  }

  private func step(_ percent: UInt64) -> Step {
    switch workload {
    case .ycsba: percent < 50 ? .read : .update
    case .ycsbb: percent < 95 ? .read : .update
    case .ycsbd: percent < 95 ? .read : .insert
    case .ycsbe: percent < 95 ? .scan : .insert
    case .ycsbf: percent < 50 ? .read : .modify
    default: .read
    }
  }

  /// Returns the number of a thread's insert. Each thread inserts its own numbers above the range.
  private func insertedNumber(_ ordinal: UInt64) -> UInt64 {
    UInt64(settings.num + thread) + ordinal * UInt64(settings.threads)
  }

  private func readNumber(_ zipfian: Zipfian) -> UInt64 {
    let rank = zipfian.next(&random)
    guard workload == .ycsbd else { return rank }
    // The order is the latest first: this thread's inserts backwards, then the loaded keys backwards.
    if rank < inserted { return insertedNumber(inserted - 1 - rank) }
    return UInt64(settings.num - 1) - min(rank - inserted, UInt64(settings.num - 1))
  }

  private func scan(from number: UInt64, limit: Int) throws {
    try session.openCursor()
    defer { session.closeCursor() }
    var isValid = try session.seek(keys.key(number))
    var steps = 0
    while isValid && steps < limit {
      bytesTouched &+= session.touchEntry()
      found &+= 1
      steps &+= 1
      isValid = try session.next()
    }
  }
}
