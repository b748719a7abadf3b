/// Changes of the log's lists. They are pure functions, without input or output.
extension LogWriter.State {
  /// Moves the current segment to the sealed ones, and chooses the size of the segment after `next`.
  mutating func seal(
    _ old: LogSegment, next: LogSegment, now: UInt64, syncs: UInt64, options: LogWriter.Options
  ) {
    live.append(LogWriter.LiveSegment(old, end: old.tail))
    if now - currentSince < options.growthNanoseconds {
      targetCapacity = min(targetCapacity * 2, options.maximumSegmentSize)
    }
    current = next
    currentSince = now
    syncsAtSwitch = syncs
  }

  mutating func takePrepared() -> PreparedSegment? {
    defer { prepared = nil }
    return prepared
  }

  /// Records that preparation ended, with the prepared segment, or `nil` if it failed.
  mutating func finishPreparation(_ segment: PreparedSegment?) {
    prepared = segment
    isPreparing = false
  }

  /// Records that a sealed segment was synced.
  mutating func markDurable(_ segment: LogWriter.LiveSegment) {
    if let index = live.firstIndex(where: { $0.number == segment.number }) { live[index].isDurable = true }
    guard let end = segment.end else { return }
    durableEnd = LogSegmentHeader.Predecessor(number: segment.number, lifeID: segment.lifeID, end: UInt64(end))
  }

  /// Continues after `cut` in the last of `written`, all of which are durable. Returns the dead segments.
  mutating func restart(
    _ written: [LogSegment], after cut: LogSegmentHeader.Predecessor, now: UInt64, syncs: UInt64
  ) -> [LogWriter.LiveSegment] {
    guard let last = written.last else { fatalError("a restart of the log without a segment") }
    live.append(LogWriter.LiveSegment(current, end: current.published))
    let dead = live.filter { $0.number > cut.number }
    live.removeAll { $0.number > cut.number }
    if let index = live.firstIndex(where: { $0.number == cut.number }) {
      live[index].end = Int(cut.end)
      live[index].isDurable = true
    }
    for segment in written.dropLast() {
      live.append(LogWriter.LiveSegment(segment, end: segment.tail, isDurable: true))
    }
    current = last
    durableEnd = last.location(at: last.tail)
    currentSince = now
    syncsAtSwitch = syncs
    return dead
  }

  /// Removes the segments before `bound` from the list, except pinned ones.
  mutating func removeLive(before bound: FileNumber) -> [LogWriter.LiveSegment] {
    let bound = min(bound, pins.min() ?? bound)
    let freed = live.filter { $0.number < bound }
    live.removeAll { $0.number < bound }
    return freed
  }
}

extension LogWriter.LiveSegment {
  /// Describes a segment that has just been sealed.
  init(_ segment: LogSegment, end: Int, isDurable: Bool = false) {
    self.init(
      number: segment.number, lifeID: segment.lifeID, capacity: segment.capacity, file: segment.file,
      logBase: segment.logBase, end: end, isDurable: isDurable)
  }
}
