import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct RangeTombstoneListTests {
  private final class Keys {
    let start: [UInt8]
    let bytes: OwnedBytes
    init(_ range: ([UInt8], [UInt8])) {
      start = range.0
      bytes = OwnedBytes(range.0 + range.1)
    }
    var views: (ByteView, ByteView) {
      (bytes.view.slice(0, start.count), bytes.view.dropFirst(start.count))
    }
  }

  private static func merged(
    _ random: inout SeededRandom, snapshots: [UInt64], count: Int
  ) -> (NaiveTombstones, RangeTombstoneList) {
    var naive = NaiveTombstones()
    var merge = RangeTombstoneMerge()
    for _ in 0..<count {
      let range = NaiveTombstones.range(&random)
      let sequence = UInt64(1 + random.below(50))
      naive.tombstones.append(.init(start: range.0, end: range.1, sequence: sequence))
      let keys = Keys(range)
      merge.add(keys.views.0, keys.views.1, SequenceNumber(sequence), owner: keys)
    }
    let intervals = SnapshotIntervals(snapshots.map { SequenceNumber($0) })
    return (naive, merge.fragments(interval: { intervals.interval(of: $0) }, unsettled: intervals.unsettled))
  }

  @Test func `a merge keeps the newest tombstone of each snapshot interval over every key`() {
    for seed in UInt64(1)...60 {
      var random = SeededRandom(seed: seed)
      let snapshots = Set((0..<(1 + random.below(4))).map { _ in UInt64(1 + random.below(55)) }).sorted()
      let (naive, list) = Self.merged(&random, snapshots: snapshots, count: random.below(30))
      for key in NaiveTombstones.allKeys {
        key.withByteView { view in
          for snapshot in snapshots {
            let found = list.sequence(covering: view, at: SequenceNumber(snapshot)).value
            #expect(found == naive.covering(key, at: snapshot), "seed \(seed): key \(key) at \(snapshot)")
          }
          let index = list.firstIndex(endingAfter: view)
          let kept = index < list.count && list.start(index) <= view ? Array(list.sequences(index)) : []
          let intervals = SnapshotIntervals(snapshots.map { SequenceNumber($0) })
          let settled = kept.map { intervals.interval(of: SequenceNumber($0)) }.filter { $0 != intervals.unsettled }
          #expect(Set(settled).count == settled.count, "seed \(seed): two of one interval over \(key): \(kept)")
          let late = Set(
            naive.tombstones.filter { $0.sequence > snapshots.last ?? 0 && naive.covers($0, key) }.map(\.sequence))
          #expect(Set(kept).isSuperset(of: late), "seed \(seed): unsettled tombstones over \(key) are gone")
        }
      }
    }
  }

  @Test func `the range around a key is a fragment or the gap between two`() {
    for seed in UInt64(1)...30 {
      var random = SeededRandom(seed: seed)
      let (naive, list) = Self.merged(&random, snapshots: [60], count: random.below(12))
      for key in NaiveTombstones.allKeys {
        key.withByteView { view in
          let segment = list.segment(around: view, at: SequenceNumber(60))
          #expect(segment.contains(view), "seed \(seed)")
          for other in NaiveTombstones.allKeys where other.withByteView({ segment.contains($0) }) {
            #expect(naive.covering(other, at: 60) == segment.sequence.value, "seed \(seed): \(key), \(other)")
          }
        }
      }
    }
  }

  @Test func `a list on disk is read back as it was`() throws {
    for seed in UInt64(1)...40 {
      var random = SeededRandom(seed: seed)
      let (_, list) = Self.merged(&random, snapshots: [10, 20, 30], count: random.below(20))
      var content = ByteWriter()
      RangeTombstoneBlock.append(list, to: &content)
      let read = try RangeTombstoneBlock.read(content.view, path: "table", offset: 0)
      #expect(read.count == list.count, "seed \(seed)")
      for index in 0..<list.count {
        #expect(read.start(index) == list.start(index) && read.end(index) == list.end(index), "seed \(seed)")
        #expect(read.sequences(index).elementsEqual(list.sequences(index)), "seed \(seed)")
      }
    }
  }

  @Test func `a list on disk that was cut is damage, and one with a flipped bit is damage or still in order`() {
    for seed in UInt64(1)...10 {
      var random = SeededRandom(seed: seed)
      let (_, list) = Self.merged(&random, snapshots: [10, 20], count: 12)
      var content = ByteWriter()
      RangeTombstoneBlock.append(list, to: &content)
      let good = content.bytes
      for size in 0..<good.count { #expect(Self.isDamage(Array(good.prefix(size))), "cut to \(size), seed \(seed)") }
      for bit in 0..<(good.count * 8) {
        var bytes = good
        bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        _ = Self.isDamage(bytes)
      }
    }
  }

  /// Returns whether reading throws. If it does not, the list must be in order.
  private static func isDamage(_ bytes: [UInt8]) -> Bool {
    let copy = OwnedBytes(bytes)
    defer { withExtendedLifetime(copy) {} }
    guard let list = try? RangeTombstoneBlock.read(copy.view, path: "table", offset: 0) else { return true }
    for index in 0..<list.count {
      #expect(list.start(index) < list.end(index))
      #expect(index == 0 || list.end(index - 1) <= list.start(index))
      #expect(zip(list.sequences(index), list.sequences(index).dropFirst()).allSatisfy(>))
    }
    return false
  }
}
