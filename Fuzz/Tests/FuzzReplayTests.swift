import Foundation
import Testing

/// Checks that every input that once found a fault is read without a fault.
struct FuzzReplayTests {
  @Test(arguments: FuzzTarget.allCases)
  func `every kept input is read without a fault`(target: FuzzTarget) throws {
    let memory = GuardedMemory()
    for input in try KeptInputs.load(target) {
      #expect(throws: Never.self, "Fuzz/Corpus/\(target.rawValue)/\(input.name)") {
        _ = try target.run(input.bytes, in: memory)
      }
    }
  }

  @Test func `the kept inputs are found`() throws {
    let count = try FuzzTarget.allCases.map { try KeptInputs.load($0).count }.reduce(0, +)
    #expect(count > 0, "\(KeptInputs.directory.path) has no inputs")
    let names = try FileManager.default.contentsOfDirectory(atPath: KeptInputs.directory.path)
    let unknown = names.filter { !$0.hasPrefix(".") && FuzzTarget(rawValue: $0) == nil }
    #expect(unknown.isEmpty, "folders of no target: \(unknown)")
  }
}
