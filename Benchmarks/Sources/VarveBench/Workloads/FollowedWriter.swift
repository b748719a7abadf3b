import Foundation
import Synchronization
import VarveEngine

/// The process that writes the database of `followopen` and `followcatchup`, as the process that reads sees it.
///
/// The writer runs until `end` kills it. If this process ends first, the writer's next report fails, and it ends
/// itself.
final class FollowedWriter: Sendable {
  /// What the writer reports after each few puts. It is sent as its bytes.
  struct Progress: BitwiseCopyable {
    var putCount: UInt64 = 0
    /// The sequence of the last commit.
    var sequence: UInt64 = 0
    /// The bytes of the segments of the log that are needed.
    var logBytes: UInt64 = 0
  }

  private let process: Process
  /// The last report, or `nil` once the writer has ended.
  private let last = Mutex<Progress?>(Progress())

  /// Starts a writer of a new database with `rate` puts per second, or at full speed if `rate` is 0, and waits until it
  /// has filled the log.
  init(_ settings: RunSettings, _ workload: Workload, rate: Int) throws {
    var child = settings
    child.steps = [Step(workload, writeRate: rate, isKilled: true)]
    process = try ChildProcess.make(child)
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let reader = Thread { [self] in
      let file = output.fileHandleForReading
      var progress: Progress? = Progress()
      while progress != nil {
        // A report arrives whole, because a pipe does not divide so few bytes.
        let bytes = try? file.read(upToCount: MemoryLayout<Progress>.size)
        progress = bytes.flatMap { bytes in
          bytes.count == MemoryLayout<Progress>.size
            ? bytes.withUnsafeBytes { $0.loadUnaligned(as: Progress.self) } : nil
        }
        last.withLock { $0 = progress }
      }
    }
    reader.start()
    do {
      try wait { $0.putCount >= FollowedLoad(settings).fillCount }
    } catch {
      end()
      throw error
    }
  }

  func progress() throws -> Progress {
    guard let progress = last.withLock({ $0 }) else { throw EngineFailure("the writer ended too early") }
    return progress
  }

  /// Waits until the writer has reported that `isReached`. Throws if it ends.
  func wait(until isReached: (Progress) -> Bool) throws {
    while try !isReached(progress()) { usleep(1_000) }
  }

  func end() {
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}

/// The puts of the writing process: random keys of a hot family, and for each 1,000 of them a new key of a cold one.
///
/// The cold family is rarely flushed, so the log grows to its bound, and then the cold entries are logged again.
struct FollowedLoad {
  let settings: RunSettings
  /// The keys of the hot family, whose entries have together as many bytes as the log.
  let keyCount: Int

  init(_ settings: RunSettings) {
    self.settings = settings
    keyCount = settings.entryCount ?? 12_000_000
  }

  /// The options of the writer and of its readers. The bound of the log is eight memtables.
  var options: EngineOptions {
    var options = EngineOptions()
    options.memtableSize = logBytesMaximum / 8
    options.backgroundThreads = settings.engineSettings.backgroundThreads
    return options
  }

  var logBytesMaximum: Int { max(keyCount * Int(settings.userBytesPerPut), 512 << 10) }

  /// The number of puts after which the log is about five eighths full.
  var fillCount: Int { keyCount * 5 / 8 }

  /// The number of commits by which a follower lags in `followcatchup`, a million by default.
  var lag: Int { max(keyCount / 12, 1) }

  /// Writes without end, at the rate of the settings once the log is filled, and reports to standard output. Returns
  /// when no process reads the reports any more.
  func run(at path: String) throws {
    let engine = try Engine.open(at: path, options: options)
    let cold = try engine.createFamily("cold")
    let keys = KeyWriter(keySize: settings.keySize)
    let values = ValueSource(
      valueSize: settings.valueSize, compressionRatio: settings.compressionRatio, seed: settings.seed)
    var random = SplitMix64(seed: settings.seed)
    let reportInterval = max(keyCount / 4_000, 1)
    var count = 0
    var start = Clock.now()
    while true {
      let value = values.next()
      let key = keys.key(random.next(below: UInt64(keyCount)))
      var sequence = try engine.put(key.bytes, value.bytes)
      count += 1
      if count % 1_000 == 0 {
        let key = keys.key(UInt64(count))
        sequence = try engine.put(key.bytes, value.bytes, in: cold)
      }
      if count % reportInterval == 0 {
        let progress = FollowedWriter.Progress(
          putCount: UInt64(count), sequence: sequence.value, logBytes: engine.statistics.log.bytes)
        let size = withUnsafeBytes(of: progress) { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        guard size > 0 else { return }
      }
      if count == fillCount { start = Clock.now() }
      if settings.writeRate > 0, count > fillCount, count & 15 == 0 {
        let due = start + UInt64(count - fillCount) * 1_000_000_000 / UInt64(settings.writeRate)
        let now = Clock.now()
        if due > now + 500_000 { usleep(UInt32((due - now) / 1000)) }
      }
    }
  }
}
