import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of entries that a replay finds after newer ones of their family.
struct LateEntryTests {
  /// A replay of puts of a few keys, some of which come late, and the puts by key.
  ///
  /// The engine is not closed, because its log has none of the entries.
  private struct Replay {
    let engine: Engine
    let family: FamilyState
    var puts: [UInt8: [UInt64]] = [:]
    private let key: (UInt64) -> UInt8
    private var lead: CommitLead { .beforeOpen }
    private var memory: MemTableManager { engine.core.pipeline.memory }

    init(seed: UInt64) throws {
      engine = try Engine.open(
        at: "/db", options: FollowFixture.options,
        environment: FollowFixture.environment(MemoryFileSystem(), SteppedExecutor(seed: seed), seed: seed))
      family = try #require(engine.core.registry.find(.default))
      key = { UInt8(($0 &* 7_919 &+ seed) % 5) }
    }

    mutating func put(_ sequences: [UInt64], isLate: Bool) throws {
      let bytes = sequences.map { sequence in ([key(sequence)], Array("\(sequence)".utf8)) }
      for sequence in sequences { puts[key(sequence), default: []].append(sequence) }
      if isLate {
        // The views belong to arrays that live until the call has returned.
        try withExtendedLifetime(bytes) {
          try Self.withViews(bytes[...], sequences[...], []) { entries in
            try memory.insertLate(entries, into: family, segment: FileNumber(1), lead)
          }
        }
        return
      }
      for ((key, value), sequence) in zip(bytes, sequences) {
        try memory.makeReplayRoom(in: family, byteCount: 64, isBounded: false, lead)
        if family.activeSegment(lead) == nil { family.beginActive(segment: FileNumber(1), lead) }
        key.withByteView { key in
          value.withByteView { value in
            _ = family.active(lead).insert(key, Trailer(SequenceNumber(sequence), .put), value)
          }
        }
      }
    }

    /// Calls `body` with the entries of some puts.
    private static func withViews(
      _ bytes: ArraySlice<([UInt8], [UInt8])>, _ sequences: ArraySlice<UInt64>,
      _ entries: [MemTableManager.LateEntry], _ body: ([MemTableManager.LateEntry]) throws -> Void
    ) throws {
      guard let first = bytes.first, let sequence = sequences.first else { return try body(entries) }
      try first.0.withByteView { key in
        try first.1.withByteView { value in
          try withViews(
            bytes.dropFirst(), sequences.dropFirst(),
            entries + [(Trailer(SequenceNumber(sequence), .put), key, value)], body)
        }
      }
    }

    func freeze() { memory.freezeReplayed(engine.core.registry, lead) }

    /// The memtables, the oldest first.
    var tables: [MemTable] { family.frozen.map(\.table) + [family.active(lead)] }

    /// Reads a key as `Engine.get` does: the newest memtable with the key decides.
    func value(_ key: UInt8, at sequence: UInt64) -> UInt64? {
      for table in tables.reversed() {
        let hit = [key].withByteView { table.get($0, at: SequenceNumber(sequence))?.trailer.sequence.value }
        if let hit { return hit }
      }
      return nil
    }
  }

  @Test func `late entries are found at their sequence, wherever they are among the memtables`() throws {
    for seed in TestScale.seed.map({ $0...$0 }) ?? 1...UInt64(TestScale.count(200)) {
      var random = SeededRandom(seed: seed)
      var replay = try Replay(seed: seed)
      var last: UInt64 = 0
      var late: [UInt64] = []
      for _ in 0..<6 {
        for _ in 0..<1 + random.below(8) {
          last += 1
          if random.oneIn(3) { late.append(last) } else { try replay.put([last], isLate: false) }
        }
        if random.oneIn(2) { replay.freeze() }
        // A record has some of the late entries, ascending. An entry that is newer than all others is not late.
        let newest = replay.family.newestSequence(.beforeOpen).value
        let chosen = late.filter { $0 < newest && random.oneIn(2) }
        guard random.oneIn(2), !chosen.isEmpty else { continue }
        late.removeAll { chosen.contains($0) }
        try replay.put(chosen, isLate: true)
        for key in UInt8(0)..<5 {
          for sequence in 0...last {
            let expected = replay.puts[key, default: []].filter { $0 <= sequence }.max()
            #expect(replay.value(key, at: sequence) == expected, "seed \(seed), key \(key) at \(sequence)")
          }
        }
        let filled = replay.tables.filter { $0.entryCount > 0 }
        for (older, newer) in zip(filled, filled.dropFirst()) {
          #expect(older.largestSequence < newer.smallestSequence, "seed \(seed)")
        }
      }
    }
  }
}
