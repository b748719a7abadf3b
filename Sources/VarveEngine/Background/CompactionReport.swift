internal import Synchronization

/// The metrics and events of one compaction, from its beginning to its end.
///
/// It retains no table: a listener notified of the end may check that the files of the inputs are gone.
///
/// Safe from any thread.
final class CompactionReport: Sendable {
  private let metrics: EngineMetrics
  private let start: UInt64
  /// The event, or `nil` if there was no listener at the beginning.
  private let event: EngineEvent.Compaction?
  private let isMove: Bool
  private let outputs = Mutex<[EngineEvent.Table]>([])

  /// Reports that the compaction begins.
  init(_ compaction: Compaction, _ background: BackgroundWork) {
    metrics = background.metrics
    start = metrics.latencies.begin()
    isMove = compaction.isTrivialMove
    guard metrics.events.isListening else {
      event = nil
      return
    }
    let inputs = compaction.inputs.flatMap { input in
      input.tables.map { EngineEvent.Table($0, level: input.level) }
    }
    let event = EngineEvent.Compaction(
      job: metrics.counters.beginJob(), family: background.registry.find(compaction.family)?.name ?? "",
      reason: compaction.reason.rawValue, inputs: inputs, outputLevel: compaction.outputLevel, isMove: isMove)
    self.event = event
    metrics.events.emit(.compactionBegan(event))
  }

  /// Notes the written tables.
  func didWrite(_ tables: [TableMetadata], level: Int) {
    guard event != nil else { return }
    outputs.withLock { $0 = tables.map { EngineEvent.Table($0, level: level) } }
  }

  /// Reports that the compaction ended.
  func end(_ result: Result<Void, EngineError>) {
    var error: EngineError?
    if case .failure(let failure) = result { error = failure }
    if error == nil && !isMove { metrics.latencies.end(.compaction, from: start) }
    guard let event else { return }
    let now = metrics.clock.now()
    let outcome = EngineEvent.Outcome(
      nanoseconds: now > start ? now - start : 0, outputs: outputs.withLock { $0 }, error: error)
    metrics.events.emit(.compactionEnded(event, outcome: outcome))
  }
}
