import Logging
import Synchronization

/// The lines that loggers have written.
final class LogRecorder: Sendable {
  struct Entry: Sendable {
    let level: Logger.Level
    let message: String
    let metadata: [String: String]
  }

  private let list = Mutex<[Entry]>([])
  var entries: [Entry] { list.withLock { $0 } }

  /// Returns a logger whose lines of at least a level are recorded.
  func logger(_ level: Logger.Level = .trace) -> Logger { Logger(label: "test") { _ in Handler(self, level) } }

  private struct Handler: LogHandler {
    let recorder: LogRecorder
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel: Logger.Level

    init(_ recorder: LogRecorder, _ level: Logger.Level) {
      self.recorder = recorder
      logLevel = level
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = metadata.merging(event.metadata ?? [:]) { $1 }
      let entry = Entry(level: event.level, message: "\(event.message)", metadata: all.mapValues { "\($0)" })
      recorder.list.withLock { $0.append(entry) }
    }
  }
}
