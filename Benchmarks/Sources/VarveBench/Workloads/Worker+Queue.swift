extension Worker {
  /// The maximum number of live entries.
  private static var queueLength: Int { 1_000 }
  private static var putsPerSeek: Int { 100 }

  /// Runs `Workload.queue`. `found` counts the seeks that found the head.
  func runQueue() throws {
    for tail in 0..<operations {
      try session.put(keys.key(UInt64(tail)), values.next(), sync: settings.sync)
      let head = max(tail + 1 - Self.queueLength, 0)
      if head > 0 { try session.delete(keys.key(UInt64(head - 1))) }
      if tail == operations / 10 { try session.holdSnapshot() }
      if tail % Self.putsPerSeek == 0 { try seekHead(head) }
      guard recorder.count() else { break }
    }
  }

  private func seekHead(_ head: Int) throws {
    try recorder.time {
      try session.openCursor()
      guard try session.seekToFirst() else { throw EngineFailure("the queue is empty at head \(head)") }
      bytesTouched &+= session.touchEntry()
      session.closeCursor()
    }
    found += 1
  }
}
