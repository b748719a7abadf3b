internal import Synchronization

/// Writes the statistics of an engine to its `STATS` (`PublishedStatistics`) when they have changed.
///
/// Failures are ignored, because the next call retries, and the file is not part of the database.
///
/// # Concurrency
/// Safe from any thread; one write runs at a time.
final class StatisticsPublisher: Sendable {
  private let background: BackgroundWork
  private let path: String
  private let process = ProcessIdentity.current
  private let state = Mutex(State())

  private struct State: Sendable {
    var file: (any File)?
    var updateCount: UInt64 = 0
    /// A summary of the last page, as a few numbers.
    var fingerprint: [UInt64] = []
    var isRemoved = false
  }

  private static let familyCountMaximum = 64
  private static let fewFamilies = 8

  init(_ background: BackgroundWork) {
    self.background = background
    path = background.tree.path(.statistics)
  }

  /// Writes the page if the statistics changed since the last one.
  func publishIfChanged() {
    let fingerprint = fingerprint
    guard state.withLock({ !$0.isRemoved && $0.fingerprint != fingerprint }) else { return }
    let now = background.tree.environment.clock.now()
    let json = text
    state.withLock { state in
      guard !state.isRemoved else { return }
      let page = StatisticsPage(
        updateCount: state.updateCount + 1, process: process, databaseID: background.tree.databaseID,
        nanoseconds: now, json: json)
      do throws(EngineError) {
        if state.file == nil { state.file = try makeFile() }
        guard let file = state.file else { return }
        try file.write(page.encode(), at: 0)
        state.updateCount += 1
        state.fingerprint = fingerprint
      } catch {
        state.file?.close()
        state.file = nil
      }
    }
  }

  private var text: String {
    let statistics = EngineStatistics(background, familyCountMaximum: Self.familyCountMaximum)
    let json = statistics.json
    if json.utf8.count <= StatisticsPage.textSizeMaximum { return json }
    return statistics.withLargestFamilies(Self.fewFamilies).json
  }

  private func makeFile() throws(EngineError) -> any File {
    let fileSystem = background.tree.environment.fileSystem
    if try fileSystem.attributes(path) != nil { try fileSystem.remove(path) }
    return try fileSystem.createFile(path)
  }

  /// Numbers by which a change of the published values is detected.
  private var fingerprint: [UInt64] {
    let counters = background.metrics.counters
    let cache = background.tree.cache.statistics
    let memory = EngineStatistics.Memory(background.tree)
    let (readers, now) = background.snapshots.summary
    // The age of the oldest reader counts in steps of ten seconds, so that it does not cause a write each second.
    let oldest = min(readers.oldestSnapshotSince ?? .max, readers.oldestCursorSince ?? .max)
    return [
      background.pipeline.visible.value, background.pipeline.log.durableSequence.value,
      background.pipeline.log.appendedPosition.value, background.epochs.readCount, cache.hitCount, cache.missCount,
      cache.evictedCount, UInt64(memory.used), background.metrics.events.droppedCount,
      background.metrics.stalls.reduce(0) { $0 &+ $1.stallCount &+ $1.totalNanoseconds },
      counters.flushCount, counters.bytesFlushed, counters.compactionCount, counters.moveCount,
      counters.failureCount, UInt64(background.registry.count), UInt64(readers.snapshotCount),
      UInt64(readers.cursorCount), oldest > now ? 0 : (now - oldest) / 10_000_000_000,
    ]
  }

  /// Stops publishing, and removes the file.
  func remove() {
    state.withLock { state in
      state.isRemoved = true
      guard let file = state.file else { return }
      file.close()
      state.file = nil
      // A leftover file is reported as that of an ended engine, and the next open removes it.
      try? background.tree.environment.fileSystem.remove(path)
    }
  }
}
