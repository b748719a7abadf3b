internal import Synchronization

/// Checks once a second for readers that live too long, and for statistics to publish.
///
/// It runs only if there is a listener, or a file that other processes see.
///
/// # Concurrency
/// Safe from any thread. One check runs at a time; it never waits for a writer.
final class EngineWatch: Sendable {
  /// The age from which a reader is reported as long-lived.
  ///
  /// It was probably forgotten: at 50 MB/s of overwrites it keeps 3 GB of otherwise obsolete data.
  static let longLivedNanoseconds: UInt64 = 60_000_000_000
  /// The age from which a lookup that retains memtables or files is reported.
  static let longReadNanoseconds: UInt64 = 1_000_000_000
  /// The time between two checks.
  static let periodNanoseconds: UInt64 = 1_000_000_000

  // The watch does not retain the engine, because a job must not release the last reference to it.
  private let background: BackgroundWork
  private let publisher: StatisticsPublisher?
  private let isStarted = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)
  /// The age at which a long lookup is reported next. Used by one check at a time.
  private let longReadAge = Atomic<UInt64>(EngineWatch.longReadNanoseconds)

  /// A Boolean value that indicates whether statistics are published.
  var publishes: Bool { publisher != nil }

  init(_ background: BackgroundWork) {
    self.background = background
    let publishes =
      background.options.publishesStatistics && !background.options.readOnly
      && background.tree.environment.fileSystem.isSharedWithProcesses
    publisher = publishes ? StatisticsPublisher(background) : nil
    if publishes || background.metrics.events.isListening { start() }
  }

  /// Starts the checks, unless they are running.
  func start() {
    guard !isStarted.exchange(true, ordering: .relaxed) else { return }
    background.executor.submit("watch", priority: .normal) { [self] in look() }
  }

  /// Stops the checks. `removePublished` removes the published file, once no check is running.
  func stop() { isStopped.store(true, ordering: .relaxed) }

  func removePublished() { publisher?.remove() }

  private func look() {
    guard !isStopped.load(ordering: .relaxed) else { return }
    if background.metrics.events.isListening {
      for event in background.snapshots.takeLongLived(bound: Self.longLivedNanoseconds) {
        background.metrics.events.emit(event)
      }
      reportLongRead()
    }
    publisher?.publishIfChanged()
    background.executor.submit("watch", after: Self.periodNanoseconds) { [self] in look() }
  }

  private func reportLongRead() {
    guard let deferred = background.epochs.deferredReleases, deferred.ageNanoseconds >= Self.longReadNanoseconds else {
      longReadAge.store(Self.longReadNanoseconds, ordering: .relaxed)
      return
    }
    guard deferred.ageNanoseconds >= longReadAge.load(ordering: .relaxed) else { return }
    longReadAge.store(2 * deferred.ageNanoseconds, ordering: .relaxed)
    background.metrics.events.emit(
      .longRead(
        ageNanoseconds: deferred.ageNanoseconds, memTableCount: deferred.weight.memTableCount,
        bytes: deferred.weight.bytes, fileCount: background.obsolete.pinnedCount))
  }
}
