import CFuzzDriver
import Foundation
import FuzzTargets

/// Executes the inputs of one target and reports the results.
final class Driver {
  private let target: FuzzTarget
  private let arguments: Arguments
  private let inputs: FuzzRun
  private let memory = GuardedMemory()
  private var counts: [FuzzOutcome: UInt64] = [:]
  private var largestAllocation = 0

  init(_ target: FuzzTarget, _ arguments: Arguments) throws {
    self.target = target
    self.arguments = arguments
    inputs = FuzzRun(target, seed: arguments.seed, kept: try KeptInputs.load(target).map(\.bytes))
    crash_note_run(target.rawValue, arguments.seed)
  }

  /// Runs all executions. Returns false at the first fault, which is printed with the arguments to replay it.
  func run() throws -> Bool {
    if let index = arguments.replay { return try replay(index) }
    let clock = ContinuousClock()
    let start = clock.now
    for index in 0..<max(arguments.executions, inputs.builtCount) {
      guard execute(index) else { return false }
    }
    let seconds = max(start.duration(to: clock.now) / .seconds(1), 0.001)
    let total = counts.values.reduce(0, +)
    func percent(_ outcome: FuzzOutcome) -> String {
      String(format: "%.1f %%", Double(counts[outcome] ?? 0) * 100 / Double(max(total, 1)))
    }
    print(
      "\(target.rawValue): \(total) executions in \(String(format: "%.1f", seconds)) s,",
      "\(Int(Double(total) / seconds)) a second, seed \(arguments.seed): \(percent(.accepted)) accepted,",
      "\(percent(.damaged)) damaged, \(percent(.unsupported)) unsupported;",
      "at most \(largestAllocation >> 10) KiB allocated")
    return true
  }

  private func execute(_ index: UInt64) -> Bool {
    crash_note_index(index)
    let bytes = inputs.input(index)
    allocation_peak_begin()
    let result = Result { () throws(FuzzFailure) in try target.run(bytes, in: memory) }
    let allocated = Int(allocation_peak_end())
    largestAllocation = max(largestAllocation, allocated)
    var fault: String?
    switch result {
    case .success(let outcome): counts[outcome, default: 0] += 1
    case .failure(let failure): fault = failure.description
    }
    if allocated > target.allocationBound(inputSize: bytes.count) {
      fault = "\(allocated) bytes allocated for an input of \(bytes.count)"
    }
    guard let fault else { return true }
    print("\(target.rawValue): \(fault)")
    print("again: varve-fuzz \(target.rawValue) --seed \(arguments.seed) --replay \(index)")
    return false
  }

  private func replay(_ index: UInt64) throws -> Bool {
    let bytes = inputs.input(index)
    if let name = arguments.keep { print("kept: \(try KeptInputs.keep(bytes, target, name: name))") }
    print("\(target.rawValue) --seed \(arguments.seed) --replay \(index): \(bytes.count) bytes")
    guard execute(index) else { return false }
    print("no fault: \(counts.keys.map { "\($0)" }.joined())")
    return true
  }
}
