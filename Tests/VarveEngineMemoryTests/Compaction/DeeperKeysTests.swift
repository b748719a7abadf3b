import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct DeeperKeysTests {
  @Test(arguments: 0..<30 as Range<UInt64>)
  func `a lookup in all deeper levels answers as the bounds of each table do`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    func name(_ number: Int) -> String { String(String(number + 1000).dropFirst()) }
    var runs: [[ClosedRange<String>]] = []
    for _ in 0..<random.below(4) {
      var run: [ClosedRange<String>] = []
      var position = random.below(40)
      while position < 900 {
        let end = position + random.below(30)
        run.append(name(position)...name(end))
        position = end + 1 + random.below(60)
      }
      runs.append(run)
    }
    var deeper = DeeperKeys(runs.map { SortedRun($0.map { ArrayCompaction.table($0) }) })
    for _ in 0..<3 {
      deeper.rewind()
      var number = 0
      while number < 999 {
        let key = OwnedBytes(Array(name(number).utf8))
        let answer = key.withView { deeper.mayHold($0) }
        #expect(answer == runs.contains { $0.contains { $0.contains(name(number)) } }, "seed \(seed), key \(number)")
        // The keys advance in small steps and in large ones.
        number += random.oneIn(10) ? random.below(400) + 1 : random.below(5) + 1
      }
    }
  }
}
