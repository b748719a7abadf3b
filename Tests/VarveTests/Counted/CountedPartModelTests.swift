import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Random operations on a counted part, with savepoints, reopenings and held snapshots, compared with a sorted array.
///
///     VARVE_TEST_SCALE=100 ./tools/test --filter CountedPartModelTests
struct CountedPartModelTests {
  /// A trivially right counted part: its keys in order.
  private struct Model {
    var keys: [[UInt8]] = []

    func rank(_ key: [UInt8]) -> Int {
      var (low, high) = (0, keys.count)
      while low < high {
        let middle = (low + high) / 2
        if ByteOrder.precedes(keys[middle], key) { low = middle + 1 } else { high = middle }
      }
      return low
    }
    func contains(_ key: [UInt8]) -> Bool {
      let rank = rank(key)
      return rank < keys.count && keys[rank] == key
    }
    func range(_ range: StorageRange) -> Range<Int> {
      let lower = rank(range.lower)
      return lower..<max(lower, range.upper.map { rank($0) } ?? keys.count)
    }
  }

  private struct Mix {
    var inserted = 0
    var removed = 0
    var ranges = 0
    var undone = 0
    var held = 0
    var reopened = 0
    var large = 0
  }

  private static func randomKey(_ random: inout SeededRandom) -> [UInt8] {
    // Some keys lie close to each other, and some are long.
    let first = random.oneIn(3) ? UInt8(random.below(4)) : UInt8(random.below(256))
    return [first] + random.bytes(1 + random.below(random.oneIn(20) ? 40 : 3))
  }

  private static func randomRange(_ random: inout SeededRandom) -> StorageRange {
    let ends = [randomKey(&random), randomKey(&random)].sorted(by: ByteOrder.precedes)
    switch random.below(6) {
    case 0: return StorageRange(lower: [], upper: ends[1])
    case 1: return StorageRange(lower: ends[0])
    case 2: return StorageRange(prefix: [ends[0][0]])
    case 3: return StorageRange(lower: ends[1], upper: ends[0])
    default: return StorageRange(lower: ends[0], upper: ends[1])
    }
  }

  private static func compare(_ part: Part, _ model: Model, _ random: inout SeededRandom) throws {
    let range = randomRange(&random)
    let inside = model.range(range)
    #expect(try part.count(range) == inside.count)
    let key = randomKey(&random)
    let place = min(max(model.rank(key), inside.lowerBound), inside.upperBound) - inside.lowerBound
    if !range.isEmpty { #expect(try part.offset(of: key, in: range) == place) }
    let offset = random.below(inside.count + 2)
    let isReverse = random.oneIn(2)
    var expected: [UInt8]?
    if offset < inside.count {
      expected = model.keys[isReverse ? inside.upperBound - 1 - offset : inside.lowerBound + offset]
    }
    #expect(try part.entry(at: offset, in: range, isReverse: isReverse)?.key == expected)
    var cursor = try part.cursor(from: offset, in: range, isReverse: isReverse, keysOnly: true)
    #expect(try cursor.next()?.key == expected)
  }

  private static func change(
    _ part: Part, _ model: inout Model, _ random: inout SeededRandom, _ mix: inout Mix, bulk: Int
  ) throws {
    switch random.below(20) {
    case 0:
      let range = randomRange(&random)
      let inside = model.range(range)
      // A range with most entries is rarely removed.
      if inside.count > model.keys.count / 2, !random.oneIn(10) { return }
      try part.deleteRange(range)
      model.keys.removeSubrange(inside)
      mix.ranges += 1
    case 1..<8 where !model.keys.isEmpty:
      let index = random.below(model.keys.count)
      try part.remove(model.keys.remove(at: index))
      mix.removed += 1
    default:
      for _ in 0..<(random.oneIn(60) ? bulk : 1) {
        let key = randomKey(&random)
        if model.contains(key) { continue }
        try part.insert(key, [1])
        model.keys.insert(key, at: model.rank(key))
        mix.inserted += 1
      }
    }
  }

  private struct Undone: Error {}

  @Test(arguments: 0..<UInt64(TestScale.count(2)))
  func `a counted part has the order statistics of a sorted array`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let site = try StorageSite(.memory)
    var database = try Database.open(try site.open(), path: "counted")
    var handle = try database.registerReady(CountedPartTests.scripted(), as: "counted")
    var model = Model()
    var mix = Mix()
    var held: [(Connection, Model)] = []
    for step in 0..<400 {
      let isRolledBack = random.oneIn(12)
      var next = model
      do {
        try database.change { tx in
          let part = try tx[handle].part("p")
          for _ in 0..<(1 + random.below(12)) {
            if random.oneIn(8) {
              var inner = next
              let isUndone = random.oneIn(2)
              do {
                try tx.savepoint {
                  for _ in 0..<5 { try Self.change(part, &inner, &random, &mix, bulk: 150) }
                  try Self.compare(part, inner, &random)
                  if isUndone { throw Undone() }
                }
                next = inner
              } catch is Undone { mix.undone += 1 }
            }
            try Self.change(part, &next, &random, &mix, bulk: 700)
            if random.oneIn(3) { try Self.compare(part, next, &random) }
          }
          if isRolledBack { throw Undone() }
        }
        model = next
      } catch is Undone { mix.undone += 1 }
      if model.keys.count > 1_000 { mix.large += 1 }
      try database.look { tx in
        let part = try tx[handle].part("p")
        for _ in 0..<3 { try Self.compare(part, model, &random) }
        if step % 40 == 0 { try part.requireRightCounts() }
      }
      if random.oneIn(4) {
        let connection = database.connection()
        try connection.beginLongLivedRead()
        held.append((connection, model))
        mix.held += 1
      }
      if let (connection, model) = held.randomElement(using: &random) {
        try connection.read { tx in try Self.compare(try tx[handle].part("p"), model, &random) }
      }
      if random.oneIn(60) {
        held = []
        try database.close()
        database = try Database.open(try site.open(), path: "counted")
        handle = try database.registerReady(CountedPartTests.scripted(), as: "counted")
        mix.reopened += 1
      }
    }
    #expect(
      mix.inserted > 1_000 && mix.removed > 200 && mix.ranges > 20 && mix.undone > 20 && mix.held > 50
        && mix.reopened > 0 && mix.large > 0, "seed \(seed): \(mix)")
    held = []
    try database.close()
    withExtendedLifetime(site) {}
  }
}
