import EngineTestSupport
import Testing

/// Runs damaged inputs of a fixed seed, a few thousand for each target; `Fuzz/run` runs them for hours.
struct FuzzDamageTests {
  private static let executionCount = UInt64(TestScale.count(3_000))
  private static let seed: UInt64 = 20_261_122

  @Test(arguments: FuzzTarget.allCases)
  func `no damaged input makes a reader fail`(target: FuzzTarget) throws {
    let run = FuzzRun(target, seed: Self.seed)
    let memory = GuardedMemory()
    var counts: [FuzzOutcome: Int] = [:]
    for index in 0..<Self.executionCount {
      do throws(FuzzFailure) {
        counts[try target.run(run.input(index), in: memory), default: 0] += 1
      } catch {
        Issue.record(error, "Fuzz/run \(target.rawValue) --seed \(Self.seed) --replay \(index)")
        return
      }
    }
    // If damage were never noticed, or no input accepted, the test would not have tried anything.
    #expect(counts[.accepted, default: 0] * 50 >= Int(Self.executionCount), "\(counts)")
    if target != .keyRange { #expect(counts[.damaged, default: 0] * 50 >= Int(Self.executionCount), "\(counts)") }
  }

  @Test(arguments: FuzzTarget.allCases)
  func `every input of the builders is read without an error`(target: FuzzTarget) throws {
    let memory = GuardedMemory()
    for seed in 1...UInt64(5) {
      let run = FuzzRun(target, seed: seed)
      for index in 0..<run.builtCount {
        let outcome = try target.run(run.input(index), in: memory)
        #expect(outcome == .accepted, "input \(index) of seed \(seed)")
      }
    }
  }

  @Test(arguments: FuzzTarget.allCases)
  func `checksums that are right already are not changed`(target: FuzzTarget) {
    let run = FuzzRun(target, seed: 3)
    for index in 0..<run.builtCount {
      let built = run.input(index)
      var sealed = built
      FuzzRun.seal(&sealed, target)
      #expect(sealed == built, "input \(index)")
    }
  }

  @Test func `the same seed gives the same inputs, and another seed others`() {
    let runs = [FuzzRun(.log, seed: 1), FuzzRun(.log, seed: 1), FuzzRun(.log, seed: 2)]
    let inputs = runs.map { run in (0..<200).map { run.input($0) } }
    #expect(inputs[0] == inputs[1])
    #expect(inputs[0] != inputs[2])
  }

  @Test(arguments: [[UInt8](), [7], [1, 2, 3, 4, 5, 6, 7, 8]])
  func `a read outside the input stops the process`(bytes: [UInt8]) async {
    // The sizes are placed at the end, at the end, and at the beginning of the memory.
    await #expect(processExitsWith: .failure) { [bytes] in
      let memory = GuardedMemory()
      unsafe FuzzProbe.readOutside(bytes, in: memory)
    }
  }
}
