internal import Synchronization

/// What is looked at once a second: readers that live too long, and figures to publish.
///
/// Runs only where there is somebody to tell: a listener, or a file that other processes see.
///
/// # Concurrency
/// Safe from any thread. One look runs at a time; it never waits for a writer.
final class EngineWatch: Sendable {
  /// A read that lasts longer than this is rather forgotten than long: at 50 MB/s of overwrites it keeps
  /// 3 GB of what nobody else needs.
  static let longLivedNanoseconds: UInt64 = 60_000_000_000
  /// A lookup that keeps something for longer than this is reported.
  static let longReadNanoseconds: UInt64 = 1_000_000_000
  /// Between two looks.
  static let periodNanoseconds: UInt64 = 1_000_000_000

  // Not the engine: a job must not be what lets the last reference to it go.
  private let background: BackgroundWork
  private let publisher: StatisticsPublisher?
  private let isStarted = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)
  /// The age at which a long lookup is reported next. One look at a time.
  private let longReadAge = Atomic<UInt64>(EngineWatch.longReadNanoseconds)

  /// Whether figures are published.
  var publishes: Bool { publisher != nil }

  init(_ background: BackgroundWork) {
    self.background = background
    let publishes =
      background.options.publishesStatistics && !background.options.readOnly
      && background.tree.environment.fileSystem.isSharedWithProcesses
    publisher = publishes ? StatisticsPublisher(background) : nil
    if publishes || background.metrics.events.isListening { start() }
  }

  /// Begins to look, unless it does already.
  func start() {
    guard !isStarted.exchange(true, ordering: .relaxed) else { return }
    background.executor.submit("watch", priority: .normal) { [self] in look() }
  }

  /// Looks no more. What was published goes with `removePublished`, once no look runs any more.
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
    guard let keptBack = background.epochs.keptBack, keptBack.ageNanoseconds >= Self.longReadNanoseconds else {
      longReadAge.store(Self.longReadNanoseconds, ordering: .relaxed)
      return
    }
    guard keptBack.ageNanoseconds >= longReadAge.load(ordering: .relaxed) else { return }
    longReadAge.store(2 * keptBack.ageNanoseconds, ordering: .relaxed)
    background.metrics.events.emit(
      .longRead(
        ageNanoseconds: keptBack.ageNanoseconds, memTableCount: keptBack.weight.memTableCount,
        bytes: keptBack.weight.bytes, fileCount: background.obsolete.pinnedCount))
  }
}
