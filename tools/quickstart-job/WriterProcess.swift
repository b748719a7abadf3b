import Foundation

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Acknowledgements of batches: eight bytes per batch through a pipe, the number of batches that are committed.
///
/// Data in a pipe survives its writer, so the parent receives every acknowledgement that the child sent, even after
/// SIGKILL. Eight bytes are written completely or not at all.
enum Acknowledgements {
  static let size = 8

  /// Sends an acknowledgement; the child calls this when a commit has returned. Without a parent the child exits.
  static func send(_ count: Int) {
    var number = UInt64(count).littleEndian
    // Safety: the pointer is valid for the call, and the number has eight bytes.
    guard unsafe write(STDOUT_FILENO, &number, size) == size else { exit(3) }
  }

  static func decode(_ bytes: some Collection<UInt8>) -> Int {
    Int(bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }
}

/// The parent's view of the child process that writes.
struct WriterProcess {
  /// The end of a child process.
  struct Outcome {
    /// The total number of batches that were acknowledged.
    let acknowledged: Int
    let wasKilled: Bool
    let seconds: Double
  }

  let database: String
  let workload: Workload
  let metrics: String

  /// Runs the child from a batch on. With `killAfter` it is killed by SIGKILL once it has acknowledged that many
  /// batches, whatever it does at that time.
  func run(from firstBatch: Int, killAfter: Int?) throws -> Outcome {
    let process = Process()
    let pipe = Pipe()
    process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
    process.arguments = [
      "write", "--database", database, "--seed", "\(workload.seed)", "--writes", "\(workload.writeCount)",
      "--first-batch", "\(firstBatch)", "--metrics", metrics,
    ]
    process.standardOutput = pipe
    let start = ContinuousClock().now
    try process.run()
    var acknowledged = firstBatch
    var killed = false
    var rest: [UInt8] = []
    while true {
      let data = pipe.fileHandleForReading.availableData
      if data.isEmpty { break }
      rest += data
      let whole = rest.count / Acknowledgements.size * Acknowledgements.size
      guard whole > 0 else { continue }
      acknowledged = Acknowledgements.decode(rest[(whole - Acknowledgements.size)..<whole])
      rest.removeSubrange(..<whole)
      if let killAfter, acknowledged >= killAfter, !killed {
        kill(process.processIdentifier, SIGKILL)
        killed = true
      }
    }
    process.waitUntilExit()
    let seconds = (ContinuousClock().now - start) / .seconds(1)
    let diedOfKill = process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGKILL
    guard diedOfKill || process.terminationStatus == 0 && process.terminationReason == .exit else {
      throw JobError("the writing process ended with status \(process.terminationStatus)")
    }
    return Outcome(acknowledged: acknowledged, wasKilled: diedOfKill, seconds: seconds)
  }
}

/// The reason why the job failed.
struct JobError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
