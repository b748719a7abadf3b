import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of collections that are renamed while threads write to them and read them.
struct RenamingThreadTests {
  private static let roundCount = TestScale.count(40)

  @Test func `renaming during writes loses no acknowledged row, and extensions know the collection of each row`() throws
  {
    let database = try Database.inMemory()
    let names = try database.registerReady(NamesOfRows(), as: "names")
    let acknowledged = Mutex<Set<Int>>([])
    let isDone = Atomic(false)
    let writers = Threads.start(4) { thread in
      var number = 0
      while !isDone.load(ordering: .relaxed) {
        let key = thread * 1_000_000 + number
        number += 1
        if thread < 2 {
          try database.change { tx in try tx.set(key, key: key, in: "rows", metadata: thread) }
        } else {
          try database.besides { tx in
            _ = try tx.count(in: "rows")
            try tx.set(key, key: key, in: "rows", metadata: thread)
          }
        }
        acknowledged.withLock { _ = $0.insert(key) }
      }
    }
    let readers = Threads.start(2) { _ in
      while !isDone.load(ordering: .relaxed) {
        try database.look { tx in
          // One snapshot has each row once, whatever the names of the collections are.
          let listed = try tx.collections().reduce(0) { try $0 + tx.count(in: $1) }
          guard try listed == tx.count() else { throw Unexpected(what: "\(listed) rows by name") }
        }
      }
    }
    for round in 0..<Self.roundCount {
      // Rows are written under the former name again, which creates another collection.
      try database.change { tx in try tx.set(-round, key: -1 - round, in: "rows") }
      acknowledged.withLock { _ = $0.insert(-1 - round) }
      try database.renameCollection("rows", to: "rows \(round)")
    }
    isDone.store(true, ordering: .relaxed)
    writers.join()
    readers.join()
    try database.waitReady(names)
    try database.look { tx throws in
      var found: [Int] = []
      var counts: [String: Int] = [:]
      for name in try tx.collections() {
        let keys = try tx.keys(Int.self, in: name)
        found += keys
        counts[name] = keys.count
      }
      #expect(counts.count >= Self.roundCount)
      #expect(found.count == Set(found).count, "a row is in two collections")
      #expect(Set(found) == acknowledged.withLock { $0 })
      #expect(try tx[names].counts() == counts)
    }
    try database.endNow()
  }
}
