/// Metrics and events of a flush.
extension FlushJob {
  /// Calls `run`, and records its metrics and events.
  func runMeasured() throws(EngineError) {
    // A job without inputs, which only frees log segments, has no events of its own: each segment is reported
    // separately.
    guard !inputs.isEmpty else {
      _ = try run()
      return
    }
    let metrics = background.metrics
    let start = metrics.latencies.begin()
    let flush = event(job: metrics.counters.beginJob())
    metrics.events.emit(.flushBegan(flush))
    do throws(EngineError) {
      let outputs = try run()
      metrics.latencies.end(.flush, from: start)
      metrics.counters.addFlush(read: flush.bytesRead, unlogged: bytesUnlogged)
      metrics.events.emit(.flushEnded(flush, outcome: outcome(outputs, nil, from: start)))
    } catch {
      metrics.events.emit(.flushEnded(flush, outcome: outcome([], error, from: start)))
      throw error
    }
  }

  private func event(job: UInt64) -> EngineEvent.Flush {
    EngineEvent.Flush(
      job: job, families: inputs.map(\.family.name), memTableCount: inputs.reduce(0) { $0 + $1.frozen.count },
      bytesRead: bytes { _, _ in true })
  }

  /// The bytes of entries that are not in the log.
  private var bytesUnlogged: UInt64 { bytes { $0.state.isVolatile || $1.hasUnlogged } }

  private func bytes(of isCounted: (ColumnFamily, FrozenMemTable) -> Bool) -> UInt64 {
    inputs.reduce(0) { sum, input in
      input.frozen.reduce(sum) { isCounted(input.family, $1) ? $0 + UInt64($1.table.usedBytes) : $0 }
    }
  }

  private func outcome(_ outputs: [EngineEvent.Table], _ error: EngineError?, from start: UInt64) -> EngineEvent.Outcome
  {
    let now = background.metrics.clock.now()
    return EngineEvent.Outcome(nanoseconds: now > start ? now - start : 0, outputs: outputs, error: error)
  }
}

extension EngineEvent.Table {
  init(_ table: TableMetadata, level: Int) {
    self.init(number: table.number.value, level: level, bytes: table.fileSize, entryCount: table.entryCount)
  }
}
