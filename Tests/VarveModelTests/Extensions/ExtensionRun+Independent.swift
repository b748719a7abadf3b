import EngineTestSupport
import Foundation
import Synchronization
import VarveTestSupport

@testable import Varve

/// The independent commits: commits of independent parts, between transactions and inside them.
extension ExtensionRun {
  /// An operation of an independent commit, drawn beforehand because its closure runs on another thread.
  private enum Operation: Sendable {
    case put(Int, Int64), delete(Int), add(Int, Int64), get(Int), counter(Int), countValues

    static func draw(_ random: inout SeededRandom) -> Operation {
      let key = random.below(ModelParts.keyCount)
      return switch random.below(10) {
      case 0..<3: .put(key, Int64(random.below(1_000)))
      case 3: .delete(key)
      case 4..<7: .add(key, Int64(random.below(100)) - 50)
      case 7: .get(key)
      case 8: .counter(key)
      default: .countValues
      }
    }

    /// Applies the operation to the parts, and returns what it read.
    func run(_ values: Part, _ sums: Part) throws -> Int64? {
      switch self {
      case .put(let key, let number): try values.put(ModelParts.key(key), BigEndian.bytes(number))
      case .delete(let key): try values.delete(ModelParts.key(key))
      case .add(let key, let number): try sums.add(number, to: ModelParts.key(key))
      case .get(let key): return try values.get(ModelParts.key(key)).flatMap { BigEndian.number($0) }
      case .counter(let key): return try sums.counter(ModelParts.key(key))
      case .countValues: return Int64(try values.count())
      }
      return nil
    }

    /// Applies the operation to the model, and returns what it read.
    func run(_ state: inout ExtensionState) -> Int64? {
      switch self {
      case .put(let key, let number): state[.asideValues, key] = number
      case .delete(let key): state[.asideValues, key] = nil
      case .add(let key, let number): state.add(number, to: key, of: .asideSums)
      case .get(let key): return state[.asideValues, key]
      case .counter(let key): return state[.asideSums, key] ?? 0
      case .countValues: return Int64(state[.asideValues].count { $0 != nil })
      }
      return nil
    }

    /// The key that the operation changes, or `nil` if it only reads.
    var change: (ModelParts.Form, Int)? {
      switch self {
      case .put(let key, _), .delete(let key): (.asideValues, key)
      case .add(let key, _): (.asideSums, key)
      case .get, .counter, .countValues: nil
      }
    }
  }

  /// Makes an independent commit, or one that throws. One made inside a transaction may cause that to be refused.
  func independent(_ step: ExtensionStep) throws {
    let operations = (0..<(1 + random.below(6))).map { _ in Operation.draw(&random) }
    // Operations from this index to the end are undone by a savepoint.
    let undoneFrom = random.oneIn(4) ? random.below(operations.count) : nil
    let isUndone = step == .independentUndone
    note(step, operations.count, undoneFrom ?? -1)
    var after = committed
    var kept = operations
    var expected: [Int64?] = []
    for (index, operation) in operations.enumerated() {
      if index == undoneFrom {
        let saved = after
        for operation in operations[index...] { expected.append(operation.run(&after)) }
        after = saved
        kept = Array(operations[..<index])
        break
      }
      expected.append(operation.run(&after))
    }
    let core = try database.core
    let terms = WriteTerms(durability: random.oneIn(8) ? .power : .process)
    do {
      let found = try Self.waiting(core) {
        try await core.commitIndependently(terms) { parts in
          let values = try parts.part("asideValues", of: Self.parts)
          let sums = try parts.part("asideSums", of: Self.parts)
          var found: [Int64?] = []
          for operation in operations[..<(undoneFrom ?? operations.count)] {
            found.append(try operation.run(values, sums))
          }
          if let undoneFrom {
            do {
              try parts.savepoint {
                for operation in operations[undoneFrom...] { found.append(try operation.run(values, sums)) }
                throw Stop()
              }
            } catch is Stop {}
          }
          if isUndone { throw Stop() }
          return found
        }
      }
      if isUndone { throw ContractBroken("a closure threw, and its independent commit did not") }
      try expect(found, expected, "what an independent commit reads")
      committed = after
      for (form, key) in kept.compactMap(\.change) { use.change(form, key) }
      // Inside a transaction this thread reads the transaction's snapshot.
      if step != .independentInside { try noteCommitted() }
    } catch is Stop {
      guard isUndone else { throw ContractBroken("an independent commit threw what its savepoint threw") }
    }
  }

  /// Runs threads that write in transactions and in independent commits concurrently.
  ///
  /// At the end, all additions are there and each number is counted once, and no reader has meanwhile seen an earlier
  /// snapshot.
  func writeSideBySide() throws {
    let (threads, rounds) = (3, 4)
    let seed = random.next()
    let core = try database.core
    let (sum, number) = (ModelParts.keyCount - 1, ModelParts.keyCount - 1)
    let isDone = Atomic<Bool>(false)
    let lastKey = ModelParts.key(number)
    let reader = Threads.start { _ in
      var last = (CommitVersion.zero, Int64.min)
      repeat {
        let now = try core.read { tx in (tx.version, try tx[Self.parts][.asideSums].counter(ModelParts.key(sum))) }
        if now.0 < last.0 || now.1 < last.1 { throw ContractBroken("a reader saw \(now) after \(last)") }
        last = now
        // The writers need the processor.
        sched_yield()
      } while !isDone.load(ordering: .sequentiallyConsistent)
    }
    let writers = Threads.start(threads) { thread in
      var random = SeededRandom(seed: seed &+ UInt64(thread))
      for _ in 0..<rounds {
        let terms = WriteTerms(durability: random.oneIn(4) ? .power : .process)
        let isWriter = thread == 0
        while true {
          do {
            if isWriter {
              try core.write(terms) { tx in try Self.count(tx[Self.parts][.asideSums], tx[Self.parts][.asideValues]) }
            } else {
              try Self.waiting(core) {
                try await core.commitIndependently(terms) { parts in
                  try Self.count(
                    parts.part("asideSums", of: Self.parts), parts.part("asideValues", of: Self.parts))
                }
              }
            }
            break
          } catch let error as DatabaseError where error.code == .conflict {}
        }
      }
    }
    let errors = writers.errorsAtEnd()
    isDone.store(true, ordering: .sequentiallyConsistent)
    try expect(errors + reader.errorsAtEnd(), [], "what the threads threw")
    for _ in 0..<(threads * rounds) {
      note(.sideBySide)
      committed.add(1, to: sum, of: .asideSums)
    }
    committed[.asideValues, number] = (committed[.asideValues, number] ?? 0) + Int64(threads * rounds)
    try core.read { tx in
      let part = try tx[Self.parts][.asideValues]
      let found = try part.get(lastKey).flatMap { BigEndian.number($0, as: Int64.self) }
      try expect(found, committed[.asideValues, number], "the number that is counted up")
    }
    try noteCommitted()
  }

  /// Adds one to a counter without reading it, and increments a number.
  private static func count(_ sums: Part, _ values: Part) throws {
    let key = ModelParts.key(ModelParts.keyCount - 1)
    try sums.add(1, to: key)
    let before: Int64 = try values.get(key).flatMap { BigEndian.number($0) } ?? 0
    try values.put(key, BigEndian.bytes(before + 1))
  }
}
