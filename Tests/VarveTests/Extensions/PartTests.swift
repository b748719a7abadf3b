import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of reads of a part, by key and in order, over committed and pending entries.
struct PartTests {
  private static func scripted() -> Scripted {
    var scripted = Scripted(events: [])
    scripted.configuration.parts = [PartDefinition("p"), PartDefinition("n", .counters(.sum))]
    return scripted
  }

  private typealias Entry = (key: [UInt8], value: [UInt8])

  private static func bytes(_ span: RawSpan) -> [UInt8] {
    (0..<span.byteCount).map { unsafe span.unsafeLoad(fromByteOffset: $0, as: UInt8.self) }
  }

  /// Compares every read of a part with a dictionary.
  private static func compare(
    _ part: Part, _ model: [[UInt8]: [UInt8]], _ random: inout SeededRandom
  ) throws {
    let sorted: [Entry] = model.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { ($0.key, $0.value) }
    let bounds = [[UInt8(random.below(64))], [UInt8(random.below(64))]].sorted { $0[0] < $1[0] }
    let range = StorageRange(lower: bounds[0], upper: random.oneIn(3) ? nil : bounds[1])
    let inside = sorted.filter { entry in
      !entry.key.lexicographicallyPrecedes(range.lower)
        && (range.upper.map { entry.key.lexicographicallyPrecedes($0) } ?? true)
    }
    #expect(try part.count(range) == inside.count)
    #expect(try part.first(in: range).map(\.key) == inside.first?.key)
    #expect(try part.first(in: range, isReverse: true).map(\.value) == inside.last?.value)
    let isReverse = random.oneIn(2)
    let expected = isReverse ? inside.reversed() : inside
    var cursor = try part.cursor(range, isReverse: isReverse)
    var entries: [Entry] = []
    func copy(_ key: RawSpan, _ value: RawSpan) -> Entry { (Self.bytes(key), Self.bytes(value)) }
    while let entry = try cursor.withNext(copy) { entries.append(entry) }
    #expect(entries.map(\.key) == expected.map(\.key) && entries.map(\.value) == expected.map(\.value))
    // A cursor continues from the position of a seek, forwards and backwards.
    for _ in 0..<4 {
      let key = [UInt8(random.below(64)), UInt8(random.below(3))]
      try cursor.seek(to: key)
      let next = expected.first {
        isReverse ? !key.lexicographicallyPrecedes($0.key) : !$0.key.lexicographicallyPrecedes(key)
      }
      #expect(try cursor.next()?.key == next?.key)
    }
    var keys = try part.cursor(range, isReverse: isReverse, keysOnly: true)
    var found: [[UInt8]] = []
    try keys.forEach { key, _ in found.append(key) }
    #expect(found == expected.map(\.key))
    let asked = (0..<5).map { _ in [UInt8(random.below(64)), UInt8(random.below(3))] }
    #expect(try part.values(asked) == asked.map { model[$0] })
    for key in asked {
      let value: [UInt8]? = try part.withValue(of: key) { Self.bytes($0) }
      #expect(value == model[key])
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `reads by key and in order agree with a dictionary, whichever writes are pending`(kind: StorageKind) throws {
    let seed = UInt64.random(in: .min ... .max)
    var random = seededRandom("parts", seed)
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "parts")
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    var committed: [[UInt8]: [UInt8]] = [:]
    var kinds: [String: Int] = [:]
    for _ in 0..<TestScale.atMost(40) {
      var model = committed
      struct Stop: Error {}
      try? database.change { tx throws in
        let part = try tx[handle].part("p")
        for _ in 0..<30 {
          let key = [UInt8(random.below(64)), UInt8(random.below(3))]
          let value = [UInt8](repeating: UInt8(random.below(256)), count: random.below(20))
          switch random.below(10) {
          case 0...4:
            try part.put(key, value)
            model[key] = value
            kinds["put", default: 0] += 1
          case 5:
            try unsafe part.put(key.span.bytes, value.span.bytes)
            model[key] = value
            kinds["put of spans", default: 0] += 1
          case 6, 7:
            try part.delete(key)
            model[key] = nil
            kinds["delete", default: 0] += 1
          case 8:
            let upper = [key[0] &+ 4]
            try part.deleteRange(StorageRange(lower: key, upper: upper))
            model = model.filter {
              $0.key.lexicographicallyPrecedes(key) || !$0.key.lexicographicallyPrecedes(upper)
            }
            kinds["deleteRange", default: 0] += 1
          default:
            try? tx.savepoint {
              try part.put(key, [1])
              try part.deleteRange(StorageRange())
              throw Stop()
            }
            kinds["undone", default: 0] += 1
          }
          if random.oneIn(5) { try Self.compare(part, model, &random) }
        }
        if random.oneIn(5) { throw Stop() }
        committed = model
      }
      try database.look { tx in try Self.compare(try tx[handle].part("p"), committed, &random) }
    }
    if TestScale.isWhole {
      #expect(kinds.count == 5 && kinds.values.allSatisfy { $0 > 20 }, "seed \(seed): \(kinds)")
    }
    try database.endNow()
  }

  @Test func `a part refuses the calls that it does not support`() throws {
    let database = try Database.inMemory()
    let handle = try database.registerReady(Self.scripted(), as: "scripted")
    try database.change { tx throws in
      let parts = try tx[handle].parts
      #expect(errorCode { try parts["p"]?.add(1, to: [1]) } == .invalidArgument)
      #expect(errorCode { try parts["n"]?.put([1], [1, 2, 3]) } == .invalidArgument)
      try parts["n"]?.add(2, to: [1])
      try parts["n"]?.add(3, to: [1])
      #expect(try parts["n"]?.counter([1]) == 5)
      #expect(errorCode { _ = try tx[handle].context.part("q") } == .invalidArgument)
      let limit = database.core.limits.keySize
      #expect(errorCode { try parts["p"]?.put([UInt8](repeating: 1, count: limit + 1), []) } == .keyTooLong)
    }
    try database.look { tx throws in
      #expect(errorCode { try tx[handle].part("p").put([1], [1]) } == .readOnly)
      #expect(errorCode { try tx[handle].part("p").deleteRange(StorageRange()) } == .readOnly)
    }
  }
}
