import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct RangeTombstoneTreeTests {
  private static func insert(
    _ tree: borrowing RangeTombstoneTree, _ naive: inout NaiveTombstones, _ range: ([UInt8], [UInt8]),
    _ sequence: UInt64
  ) -> Bool {
    naive.tombstones.append(.init(start: range.0, end: range.1, sequence: sequence))
    return range.0.withByteView { start in
      range.1.withByteView { end in tree.insert(start, end, SequenceNumber(sequence)) }
    }
  }

  @Test func `every key is covered at every sequence as a list of the tombstones says`() {
    for seed in UInt64(1)...UInt64(TestScale.count(40)) {
      var random = SeededRandom(seed: seed)
      let tree = RangeTombstoneTree()
      var naive = NaiveTombstones()
      let count = 1 + random.below(60)
      for index in 1...count { #expect(Self.insert(tree, &naive, NaiveTombstones.range(&random), UInt64(index * 3))) }
      #expect(tree.count == count)
      for sequence in [0, 2, 3, 4, UInt64(random.below(count * 3 + 3)), UInt64(count * 3), UInt64(1) << 50] {
        for key in NaiveTombstones.allKeys {
          let found = key.withByteView { tree.sequence(covering: $0, at: SequenceNumber(sequence)) }
          #expect(found.value == naive.covering(key, at: sequence), "seed \(seed), key \(key) at \(sequence)")
        }
      }
    }
  }

  @Test func `the range around a key contains only keys that the same tombstone covers`() {
    for seed in UInt64(1)...UInt64(TestScale.count(30)) {
      var random = SeededRandom(seed: seed)
      let tree = RangeTombstoneTree()
      var naive = NaiveTombstones()
      for index in 1...(1 + random.below(25)) {
        _ = Self.insert(tree, &naive, NaiveTombstones.range(&random), UInt64(index))
      }
      let sequence = SequenceNumber(UInt64(random.below(27)))
      for key in NaiveTombstones.allKeys {
        key.withByteView { view in
          let segment = tree.segment(around: view, at: sequence)
          #expect(segment.contains(view), "seed \(seed): the range around \(key) is elsewhere")
          for other in NaiveTombstones.allKeys where other.withByteView({ segment.contains($0) }) {
            #expect(
              naive.covering(other, at: sequence.value) == segment.sequence.value, "seed \(seed): \(key), \(other)")
          }
        }
      }
    }
  }

  @Test func `the fragments at a sequence are in order, and cover exactly the keys that are covered there`() {
    for seed in UInt64(1)...UInt64(TestScale.count(30)) {
      var random = SeededRandom(seed: seed)
      let tree = RangeTombstoneTree()
      var naive = NaiveTombstones()
      for index in 1...(1 + random.below(25)) {
        _ = Self.insert(tree, &naive, NaiveTombstones.range(&random), UInt64(index))
      }
      let sequence = UInt64(random.below(27))
      var found: [[UInt8]: UInt64] = [:]
      var last: [UInt8] = []
      tree.forEachFragment(at: SequenceNumber(sequence)) { start, end, newest in
        #expect(start < end && !start.bytes.lexicographicallyPrecedes(last), "seed \(seed): fragments out of order")
        last = end.bytes
        for key in NaiveTombstones.allKeys where key.withByteView({ start <= $0 && $0 < end }) {
          found[key] = newest.value
        }
      }
      for key in NaiveTombstones.allKeys {
        #expect(found[key] ?? 0 == naive.covering(key, at: sequence), "seed \(seed), key \(key) at \(sequence)")
      }
    }
  }

  @Test func `tombstones that are inserted late or twice are ordered by their sequences`() {
    for seed in UInt64(1)...UInt64(TestScale.count(20)) {
      var random = SeededRandom(seed: seed)
      let tree = RangeTombstoneTree()
      var naive = NaiveTombstones()
      var sequences = Array(UInt64(1)...30)
      for index in sequences.indices.reversed() { sequences.swapAt(index, random.below(index + 1)) }
      for sequence in sequences { #expect(Self.insert(tree, &naive, NaiveTombstones.range(&random), sequence)) }
      let again = naive.tombstones[random.below(30)]
      let isNew = again.start.withByteView { start in
        again.end.withByteView { tree.insert(start, $0, SequenceNumber(again.sequence)) }
      }
      #expect(!isNew, "seed \(seed): a tombstone was taken twice")
      for sequence in UInt64(0)...31 {
        for key in NaiveTombstones.allKeys {
          let found = key.withByteView { tree.sequence(covering: $0, at: SequenceNumber(sequence)) }
          #expect(found.value == naive.covering(key, at: sequence), "seed \(seed), key \(key) at \(sequence)")
        }
      }
      var listed: [UInt64] = []
      tree.forEachTombstone(above: SequenceNumber(10)) { _, _, sequence in listed.append(sequence.value) }
      #expect(listed == Array((UInt64(11)...30).reversed()), "seed \(seed)")
    }
  }

  @Test func `a range with a point after its tombstone is never taken for completely covered`() {
    for seed in UInt64(1)...UInt64(TestScale.count(40)) {
      var random = SeededRandom(seed: seed)
      let tree = RangeTombstoneTree()
      var naive = NaiveTombstones()
      var points: [(key: [UInt8], sequence: UInt64)] = []
      for sequence in UInt64(1)...60 {
        if random.oneIn(3) {
          _ = Self.insert(tree, &naive, NaiveTombstones.range(&random), sequence)
        } else {
          let key = NaiveTombstones.key(&random)
          key.withByteView { tree.noteWrite($0) }
          points.append((key, sequence))
        }
      }
      for key in NaiveTombstones.allKeys {
        key.withByteView { view in
          let segment = tree.segment(around: view, at: .maximum)
          guard segment.sequence != .zero else { return }
          let later = points.contains { point in
            point.sequence > segment.sequence.value && point.key.withByteView { segment.contains($0) }
          }
          // A mark may remain from a wider range, but must never be missing.
          if later { #expect(!segment.coversAll, "seed \(seed): a later point is passed around \(key)") }
        }
      }
    }
  }

  @Test func `a fresh tombstone covers all of its range`() {
    let tree = RangeTombstoneTree()
    [UInt8(5)].withByteView { tree.noteWrite($0) }
    [UInt8(1)].withByteView { start in [UInt8(9)].withByteView { _ = tree.insert(start, $0, SequenceNumber(7)) } }
    let segment = [UInt8(5)].withByteView { tree.segment(around: $0, at: .maximum) }
    #expect(segment.coversAll && segment.sequence.value == 7)
  }

  @Test func `readers see one state of the tombstones while a writer adds some`() {
    let tree = SharedTree()
    let published = SharedCounter()
    let ranges: [([UInt8], [UInt8])] = {
      var random = SeededRandom(seed: 5)
      return (0..<3_000).map { _ in NaiveTombstones.range(&random) }
    }()
    let threads = TestThreads()
    threads.start("writer") {
      for (offset, range) in ranges.enumerated() {
        range.0.withByteView { start in
          range.1.withByteView { _ = tree.tree.insert(start, $0, SequenceNumber(UInt64(offset + 1))) }
        }
        published.value.store(UInt64(offset + 1), ordering: .releasing)
      }
    }
    for reader in 1...3 {
      threads.start("reader \(reader)") {
        var random = SeededRandom(seed: UInt64(reader))
        while true {
          let visible = published.value.load(ordering: .acquiring)
          let sequence = visible - min(visible, UInt64(random.below(40)))
          let key = NaiveTombstones.key(&random)
          let found = key.withByteView { tree.tree.sequence(covering: $0, at: SequenceNumber(sequence)).value }
          // The expected tombstone is the newest one up to the sequence, found by a search backward.
          var expected = sequence
          while expected > 0 {
            let range = ranges[Int(expected - 1)]
            if !key.lexicographicallyPrecedes(range.0), key.lexicographicallyPrecedes(range.1) { break }
            expected -= 1
          }
          if found != expected { threads.report("\(key) at \(sequence): \(found) instead of \(expected)") }
          if visible == UInt64(ranges.count) { return }
        }
      }
    }
    let problems = threads.finish()
    #expect(problems.isEmpty, "\(problems.prefix(3))")
  }
}

/// A box for the tree. Sendable: one thread writes, as the tree requires.
private final class SharedTree: @unchecked Sendable {
  let tree = RangeTombstoneTree()
}

private final class SharedCounter: Sendable {
  let value = Atomic<UInt64>(0)
}
