import EngineTestSupport
import Synchronization
import VarveTestSupport

@testable import Varve

/// Steps with concurrent writers: threads that read, change what they read, and commit.
extension ObjectRun {
  static let accounts = "accounts"
  static let turns = "turns"
  static let threadCount = 3
  static let accountCount = 4
  private static let roundCount = 6

  /// Moves amounts between accounts by writers of both kinds; every reader meanwhile finds the same sum and number of
  /// rows.
  ///
  /// Each writer also adds rows, and removes some of them.
  func writeSideBySide() throws {
    endPinned()
    let faults = (backend as? ToyBackend)?.faults
    if isFaulty { try openAfterFault() }
    if var faults, let toy = backend as? ToyBackend {
      // Another suite tests failures, with one writer.
      (faults.unknownOneIn, faults.failingOneIn, faults.tooOldOneIn) = (0, 0, 0)
      toy.faults = faults
    }
    defer { if let faults { (backend as? ToyBackend)?.faults = faults } }
    let database = try database
    try database.write { tx in
      for account in 0..<Self.accountCount { try tx.set(100, key: account, in: Self.accounts) }
    }
    let seed = random.next()
    let work = Work(database)
    let threads = Threads.start(Self.threadCount) { thread in
      var random = SeededRandom(seed: seed &+ UInt64(thread))
      for round in 0..<Self.roundCount { try work.transfer(thread, round, &random) }
    }
    try expect(threads.errorsAtEnd(), [], "what the writers threw")
    // Four writes count as one step, so that the threads get their share of a run, and not most of it.
    counts[.concurrent] += Self.threadCount * Self.roundCount / 4
    if let problem = work.problem { throw ContractBroken(problem) }
    try database.read { tx in
      let left = try Work.balances(tx)
      try expect(left.reduce(0, +), 100 * Self.accountCount, "the sum of the accounts")
      try expect(try tx.count(in: ObjectRun.turns), work.expectedTurns, "the rows that the writers left")
      try expect(try tx.keys(Int.self, in: ObjectRun.turns).count, work.expectedTurns, "the rows that the writers left")
    }
    // The accounts are not part of the model.
    try database.write { tx in
      _ = try tx.removeAll(in: Self.accounts)
      _ = try tx.removeAll(in: ObjectRun.turns)
    }
  }

  /// The state that the threads share.
  private final class Work: Sendable {
    private let database: Database
    private let turns = Mutex(0)
    private let found = Mutex<String?>(nil)

    init(_ database: Database) { self.database = database }

    var expectedTurns: Int { turns.withLock { $0 } }
    var problem: String? { found.withLock { $0 } }

    static func balances(_ tx: ReadTransaction) throws -> [Int] {
      var rows = try tx.rows(in: ObjectRun.accounts)
      return try rows.compactMap { try $0.object(as: Int.self) }
    }

    func transfer(_ thread: Int, _ round: Int, _ random: inout SeededRandom) throws {
      let (from, to) = (random.below(ObjectRun.accountCount), random.below(ObjectRun.accountCount))
      let (amount, takes) = (random.below(20), random.oneIn(3))
      let turn = thread * 1_000 + round
      let body: (WriteTransaction) throws -> Int = { tx in
        let sum = try Self.balances(tx).reduce(0, +)
        if sum != 100 * ObjectRun.accountCount { self.found.withLock { $0 = "a writer sees the sum \(sum)" } }
        let before = try tx.object(Int.self, key: from, in: ObjectRun.accounts) ?? 0
        try tx.set(before - amount, key: from, in: ObjectRun.accounts)
        let target = try tx.object(Int.self, key: to, in: ObjectRun.accounts) ?? 0
        try tx.set(target + amount, key: to, in: ObjectRun.accounts)
        let isNew = try !tx.contains(key: turn, in: ObjectRun.turns)
        try tx.set("\(turn)", key: turn, in: ObjectRun.turns)
        let removed = takes && round > 0 ? try tx.remove(key: turn - 1, in: ObjectRun.turns) : false
        return (isNew ? 1 : 0) - (removed ? 1 : 0)
      }
      let change = random.oneIn(3) ? try database.write(body) : try database.writeConcurrently(body)
      turns.withLock { $0 += change }
      try database.read { tx in
        let sum = try Self.balances(tx).reduce(0, +)
        let count = try tx.count(in: ObjectRun.turns)
        let keys = try tx.keys(Int.self, in: ObjectRun.turns)
        if sum != 100 * ObjectRun.accountCount { self.found.withLock { $0 = "a reader sees the sum \(sum)" } }
        if keys.count != count { self.found.withLock { $0 = "\(keys.count) rows, and the count is \(count)" } }
        let isThere = try tx.contains(key: turn, in: ObjectRun.turns)
        if !isThere { self.found.withLock { $0 = "a writer does not find what it wrote" } }
      }
    }
  }
}
