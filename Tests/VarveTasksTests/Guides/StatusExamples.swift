import Foundation
import VarveTasks

// The Swift blocks of a guide, as StatusGuideTests runs them: a test compares them with the guide.

/// Block 1 of StatusPages.md.
enum StatusPages1 {
  /// Returns what a server answers for a path such as /tasks.json.
  static func statusJSON(_ scheduler: TaskScheduler) throws -> Data {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    encoder.outputFormatting = .sortedKeys
    return try encoder.encode(scheduler.summary())
  }
}

/// Block 2 of StatusPages.md.
enum StatusPages2 {
  /// Returns a page with a row for each queue, which the browser loads again every five seconds.
  static func statusPage(_ summary: TaskSummary) -> String {
    func escaped(_ text: String) -> String {
      text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
    }
    let rows = summary.queues.map { queue in
      let state = queue.isPaused ? "paused" : queue.blockedBy.isEmpty ? "" : "blocked"
      let cells = [
        queue.name, state, "\(queue.running)", "\(queue.ready)", "\(queue.scheduled + queue.retryWait)",
        "\(queue.dead)", "\(queue.settled)", "\(queue.failed)", queue.oldest.map { "\(Int($0)) s" } ?? "",
      ]
      return "<tr>" + cells.map { "<td>\(escaped($0))</td>" }.joined() + "</tr>"
    }
    let names = ["queue", "state", "running", "ready", "waiting", "dead", "ended/min", "failed/min", "oldest"]
    let head = "<tr>" + names.map { "<th>\($0)</th>" }.joined() + "</tr>"
    return "<!doctype html><meta http-equiv=refresh content=5><table>\(head)\(rows.joined())</table>"
  }
}

/// Block 3 of StatusPages.md.
enum StatusPages3 {
  /// Returns what a person should look at.
  static func alerts(_ summary: TaskSummary) -> [String] {
    var alerts: [String] = []
    if !summary.isRunning { alerts.append("no scheduler runs") }
    if summary.isDiskFull { alerts.append("the disk is full, and no task begins") }
    for queue in summary.queues {
      if let task = queue.blockedBy.first { alerts.append("queue \(queue.name) waits for task \(task)") }
      if let oldest = queue.oldest, oldest > 300, !queue.isPaused {
        alerts.append("queue \(queue.name) has a task that has waited for \(Int(oldest)) s")
      }
      if queue.failed > 10, queue.failed > queue.settled { alerts.append("most attempts of queue \(queue.name) fail") }
    }
    for kind in summary.kinds where kind.isUnhandled { alerts.append("kind \(kind.name) has no handler") }
    for schedule in summary.schedules where !schedule.isDeclared {
      alerts.append("schedule \(schedule.name) is not registered any more")
    }
    return alerts
  }
}
