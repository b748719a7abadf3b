internal import Foundation
internal import Logging
internal import Synchronization

/// The messages that a scheduler logs.
enum SchedulerLog {
  static func metadata(_ run: TaskRun) -> Logger.Metadata {
    [
      "task.id": "\(run.id)", "task.kind": "\(escaped(run.record.kind))", "task.queue": "\(escaped(run.queue.text))",
      "task.attempt": "\(run.record.progress.attempt)", "task.epoch": "\(run.epoch)",
    ]
  }

  /// Returns a text with its control characters escaped, so that it is one line and can't control a terminal.
  static func escaped(_ text: String) -> String {
    let controls: Set<Unicode.GeneralCategory> = [.control, .lineSeparator, .paragraphSeparator]
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case _ where controls.contains(scalar.properties.generalCategory):
        result += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  static func dead(_ logger: Logger, _ run: TaskRun, _ error: String?) {
    logger.error("a task is dead", metadata: metadata(run).merging(["error": "\(escaped(error ?? "none"))"]) { $1 })
  }

  /// Logs that a task is dead because the process died too often while it ran.
  static func dead(_ logger: Logger, _ record: TaskRecord, _ queue: QueueName) {
    logger.error(
      "a task is dead",
      metadata: [
        "task.id": "\(record.id)", "task.kind": "\(escaped(record.kind))", "task.queue": "\(escaped(queue.text))",
        "task.attempt": "\(record.progress.attempt)", "task.epoch": "\(record.progress.epoch)",
        "error": "\(escaped(record.errors.last ?? "none"))",
      ])
  }

  static func orphans(_ logger: Logger, _ count: Int) {
    logger.notice("tasks were running when the process ended", metadata: ["count": "\(count)"])
  }

  static func failed(_ logger: Logger, _ error: any Error) {
    logger.error("the scheduler could not write to the database, and tries again", metadata: ["error": "\(error)"])
  }

  static func diskFull(_ logger: Logger) {
    logger.error("the disk is full: no task begins until there is space again")
  }

  static func damaged(_ logger: Logger, _ error: any Error) {
    logger.error("a task can't be read, and is left out", metadata: ["error": "\(error)"])
  }

  static func unreadable(_ logger: Logger, _ what: String, _ error: any Error) {
    logger.error(
      "a part of the database can't be read, and what needs it is left out",
      metadata: ["what": "\(escaped(what))", "error": "\(error)"])
  }

  static func unhandled(_ logger: Logger, _ record: TaskRecord, _ queue: QueueName) {
    logger.warning(
      "no handler is registered for a kind of tasks, which wait for one",
      metadata: [
        "task.kind": "\(escaped(record.kind))", "task.id": "\(record.id)", "task.queue": "\(escaped(queue.text))",
      ])
  }

  static func slot(_ logger: Logger, _ slot: TaskSlot, _ error: any Error) {
    logger.error(
      "a task of a schedule could not be made, and its slot is left out",
      metadata: ["schedule": "\(escaped(slot.schedule))", "slot": "\(slot.date)", "error": "\(error)"])
  }

  static func inbox(_ logger: Logger, _ directory: String) {
    logger.error(
      "the inbox can't be watched, and is looked at when the scheduler starts", metadata: ["path": "\(directory)"])
  }

  static func refused(_ logger: Logger, _ name: String, _ error: any Error) {
    logger.error("a file of the inbox can't be applied", metadata: ["file": "\(name)", "error": "\(error)"])
  }

  static func inboxFailed(_ logger: Logger, _ path: String, _ error: any Error) {
    logger.error(
      "an operation on a file of the inbox has failed, and is tried again later",
      metadata: ["path": "\(path)", "error": "\(error)"])
  }

  static func inboxDelayed(_ logger: Logger, _ path: String, _ error: any Error) {
    logger.warning(
      "a file of the inbox could not be applied yet, and is tried again",
      metadata: ["path": "\(path)", "error": "\(error)"])
  }

  static func held(_ logger: Logger, _ path: String) {
    logger.warning(
      "the database is a copy, and none of its tasks is started until releaseTasks() is called",
      metadata: ["path": "\(path)"])
  }

  static func setBack(_ logger: Logger, now: Date, latest: Date) {
    logger.warning(
      "the clock was set back: tasks have run at a later time",
      metadata: ["now": "\(now)", "latest": "\(latest)"])
  }

  static func wrongDate(_ logger: Logger, _ schedule: String, last: Int64, now: Int64) {
    logger.warning(
      "the last slot of a schedule is more than a day ahead of the clock, and the schedule continues from now",
      metadata: [
        "schedule": "\(escaped(schedule))", "now": "\(WallTime.date(now))", "latest": "\(WallTime.date(last))",
      ])
  }

  static func stops(_ logger: Logger, _ run: TaskRun) {
    logger.notice("a handler stops the scheduler, which ends when the handler has returned", metadata: metadata(run))
  }

  /// Logs that a handler waits in a call for something that includes its own end.
  static func waits(_ logger: Logger, _ run: TaskRun, for call: String) {
    logger.warning(
      "a handler waits for its own end, until it is cancelled",
      metadata: metadata(run).merging(["call": "\(call)"]) { $1 })
  }

  /// Logs that a handler has not succeeded although its task is done.
  static func ignored(_ logger: Logger, _ run: TaskRun, _ outcome: String) {
    logger.warning(
      "a handler has failed or returned another outcome after complete, which has no effect: the task is done",
      metadata: metadata(run).merging(["outcome": "\(escaped(outcome))"]) { $1 })
  }

  /// Logs that a task has waited for an attempt whose handler may wait for the task.
  static func awaited(_ logger: Logger, _ run: TaskRun) {
    let child = run.state.withLock { $0.child }.map { "\($0)" } ?? "none"
    logger.warning(
      "a task has waited for a minute for the end of a handler, which must not wait for the task",
      metadata: metadata(run).merging(["child": "\(child)"]) { $1 })
  }

  static func leftRunning(_ logger: Logger, _ count: Int) {
    logger.error("handlers do not return, and are abandoned", metadata: ["count": "\(count)"])
  }
}
