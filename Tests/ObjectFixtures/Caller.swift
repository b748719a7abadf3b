import Dispatch

/// A queue that recognizes its own code: it shows whether code runs where it was called, or on a thread of the
/// database.
final class Caller: TaskExecutor {
  private static let key = DispatchSpecificKey<Bool>()
  private let queue = DispatchQueue(label: "caller")
  init() { queue.setSpecific(key: Self.key, value: true) }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }

  static var isHere: Bool { DispatchQueue.getSpecific(key: key) == true }
}
