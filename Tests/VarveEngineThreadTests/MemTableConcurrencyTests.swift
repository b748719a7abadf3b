import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of one writer and of readers that never lock. Run these under ThreadSanitizer as well.
struct MemTableConcurrencyTests {
  /// An order of keys. The scattered one can be computed without a table of the keys: the index times an odd number,
  /// modulo a power of two.
  private enum Order: CaseIterable, Sendable {
    case scattered, ascending, descending, versions

    func key(_ index: Int) -> [UInt8] {
      switch self {
      case .scattered: KeyFamily.digits((index &* 7_919) & 0x3fff)
      case .ascending: KeyFamily.digits(index)
      case .descending: KeyFamily.digits(1_000_000 - index)
      case .versions: KeyFamily.digits((index &* 7_919) & 0x7)
      }
    }
  }

  /// The state that the threads of a test share.
  private final class Shared: Sendable {
    let memTable = MemTable(capacity: 8 << 20)
    /// The number of published entries: entry `i` has sequence `i + 1`.
    let published = Atomic<Int>(0)
    let faults = Mutex<[String]>([])

    func fault(_ message: String) { faults.withLock { $0.append(message) } }
  }

  @Test(arguments: Order.allCases)
  private func `eight readers find every entry that one writer has published`(order: Order) {
    let count = TestScale.atMost(12_000)
    let shared = Shared()
    var threads: [EngineThread] = []
    for reader in 0..<8 {
      threads.append(
        EngineThread(name: "memtable") {
          var random = SeededRandom(seed: UInt64(reader))
          var rounds = 0
          while shared.faults.withLock({ $0.isEmpty }) {
            let published = shared.published.load(ordering: .acquiring)
            if reader < 5 {
              getSome(shared, order, published, &random)
            } else if rounds % 4 == 0 {
              scan(shared, order, published, forward: reader < 7)
            } else {
              seekSome(shared, order, published, &random)
            }
            if published > 0 && shared.memTable.memoryUsage == 0 { shared.fault("entries without memory") }
            rounds += 1
            if published == count { break }
          }
        })
    }
    for index in 0..<count {
      let value = withKnownValue(index)
      shared.memTable.insert(
        MemTableModel.Entry(key: order.key(index), trailer: UInt64(index + 1) << 8 | 1, value: value))
      shared.published.store(index + 1, ordering: .releasing)
    }
    for thread in threads { thread.join() }
    #expect(shared.faults.withLock { $0 } == [])
    shared.memTable.checkInvariants()
    #expect(shared.memTable.entryCount == count)
  }

  /// The state that the threads of the test of redundant tombstones share.
  private final class SharedTombstones: Sendable {
    let memTable = MemTable(capacity: 64 << 20)
    let isDone = Atomic<Bool>(false)
    let changes = Mutex<[UInt64]>([])
  }

  @Test func `a range tombstone over dead keys is never found as a change`() {
    let count = TestScale.atMost(6_000)
    let shared = SharedTombstones()
    var threads: [EngineThread] = []
    for reader in 0..<3 {
      threads.append(
        EngineThread(name: "tombstones") {
          var last = SequenceNumber.zero
          while !shared.isDone.load(ordering: .acquiring) {
            let tombstones = shared.memTable.rangeTombstones.newest(at: .maximum) ?? .zero
            shared.memTable.rangeTombstones.forEachChange(above: last) { _, _, sequence in
              if sequence.value % 2 == 1 { shared.changes.withLock { $0.append(sequence.value) } }
            }
            last = tombstones
            guard reader > 0 else { continue }
            KeyFamily.digits(5).withByteView { key in
              let change = shared.memTable.rangeTombstones.change(of: key, above: .zero)
              if let change, change.value % 2 == 1 { shared.changes.withLock { $0.append(change.value) } }
            }
          }
        })
    }
    // The tombstones with odd sequences cover entries that are dead already.
    let tombstones = shared.memTable
    for sequence in UInt64(1)...UInt64(count) {
      if sequence % 2 == 1 { tombstones.rangeTombstones.beginRedundant() }
      KeyFamily.digits(3).withByteView { start in
        KeyFamily.digits(8).withByteView { end in
          _ = tombstones.insert(start, Trailer(SequenceNumber(sequence), .rangeDelete), end)
        }
      }
      if sequence % 2 == 1 { tombstones.rangeTombstones.endRedundant() }
    }
    shared.isDone.store(true, ordering: .releasing)
    for thread in threads { thread.join() }
    #expect(shared.changes.withLock { $0 } == [])
    #expect(tombstones.rangeTombstones.count == count)
  }

  private func withKnownValue(_ index: Int) -> [UInt8] { Array(String(index).utf8) }

  private func getSome(_ shared: Shared, _ order: Order, _ published: Int, _ random: inout SeededRandom) {
    if published == 0 { return }
    for _ in 0..<50 {
      let index = random.below(published)
      let hit = shared.memTable.get(order.key(index), at: UInt64(index + 1))
      if hit?.trailer != UInt64(index + 1) << 8 | 1 || hit?.value != withKnownValue(index) {
        shared.fault("\(order): entry \(index) of \(published) not found, but \(String(describing: hit))")
      }
    }
  }

  /// Seeks to published entries, and steps in both directions from there.
  private func seekSome(_ shared: Shared, _ order: Order, _ published: Int, _ random: inout SeededRandom) {
    if published == 0 { return }
    var iterator = shared.memTable.makeIterator()
    for _ in 0..<20 {
      let index = random.below(published)
      let key = order.key(index)
      let trailer = UInt64(index + 1) << 8 | 1
      iterator.seek(key, trailer)
      guard iterator.entry?.key == key, iterator.trailer.word == trailer else {
        shared.fault("\(order): seek missed entry \(index) of \(published)")
        return
      }
      for _ in 0..<random.below(5) where iterator.isValid {
        let before = iterator.entry
        iterator.next()
        if let before, let after = iterator.entry, !(before < after) { shared.fault("\(order): next went back") }
      }
      iterator.seek(key, trailer)
      for _ in 0..<random.below(5) where iterator.isValid {
        let before = iterator.entry
        iterator.previous()
        if let before, let after = iterator.entry, !(after < before) { shared.fault("\(order): previous went on") }
      }
    }
  }

  /// Scans all entries: they must be strictly ordered, and include all that were published before.
  private func scan(_ shared: Shared, _ order: Order, _ published: Int, forward: Bool) {
    var iterator = shared.memTable.makeIterator()
    var last: MemTableModel.Entry?
    var met = 0
    if forward { iterator.seekToFirst() } else { iterator.seekToLast() }
    while let entry = iterator.entry {
      if let last, !(forward ? last < entry : entry < last) { shared.fault("\(order): a scan out of order") }
      if Int(entry.trailer >> 8) <= published { met += 1 }
      last = entry
      if forward { iterator.next() } else { iterator.previous() }
    }
    if met != published { shared.fault("\(order): a scan met \(met) of \(published) entries") }
  }

  @Test func `a writer that stops in the middle of a change stops no reader of other leaves`() {
    let count = 2_000
    let shared = Shared()
    for index in 0..<count {
      shared.memTable.insert(MemTableModel.Entry(key: KeyFamily.digits(index * 2), trailer: 0x101, value: [1]))
    }
    let stopped = Gate()
    let goOn = Gate()
    shared.memTable.midChangeHook = {
      stopped.open()
      goOn.wait()
    }
    let writer = EngineThread(name: "memtable") {
      shared.memTable.insert(MemTableModel.Entry(key: KeyFamily.digits(1), trailer: 0x101, value: [2]))
    }
    stopped.wait()
    // The first leaf is being changed now: at most 64 of the first keys are in it. A search for the first key of the
    // second leaf begins before all versions of it, which is at the end of the first leaf.
    for index in TreeNode.capacity + 1..<count where shared.memTable.get(KeyFamily.digits(index * 2), at: 1) == nil {
      shared.fault("key \(index) not found while a writer is stopped")
    }
    var iterator = shared.memTable.makeIterator()
    iterator.seekToLast()
    for _ in 0..<count - TreeNode.capacity - 1 { iterator.previous() }
    let reached = iterator.entry?.key
    // A reader of the leaf that is being changed waits, and then sees the next entry.
    let found = Atomic<Bool>(false)
    let reader = EngineThread(name: "memtable") {
      found.store(shared.memTable.get(KeyFamily.digits(1), at: 1) != nil, ordering: .relaxed)
    }
    goOn.open()
    writer.join()
    reader.join()
    shared.memTable.midChangeHook = nil
    #expect(reached == KeyFamily.digits(TreeNode.capacity * 2))
    let readerFound = found.load(ordering: .relaxed)
    #expect(readerFound)
    #expect(shared.faults.withLock { $0 } == [])
  }

  @Test func `an iterator continues from an entry whose leaf was split`() {
    let memTable = MemTable(capacity: 1 << 20)
    func insert(_ number: Int) {
      memTable.insert(MemTableModel.Entry(key: KeyFamily.digits(number), trailer: 0x101, value: []))
    }
    for number in 0..<60 { insert(number * 100) }
    var forward = memTable.makeIterator()
    forward.seek(KeyFamily.digits(3_000), 0x101)
    var backward = forward
    for number in 0..<200 { insert(number * 30 + 1) }
    for number in 31..<60 {
      repeat { forward.next() } while forward.isValid && forward.userKey.bytes.last != 0x30
      #expect(forward.entry?.key == KeyFamily.digits(number * 100))
    }
    for number in (0..<30).reversed() {
      repeat { backward.previous() } while backward.isValid && backward.userKey.bytes.last != 0x30
      #expect(backward.entry?.key == KeyFamily.digits(number * 100))
    }
  }
}

/// A gate that is closed until it is opened.
private final class Gate: Sendable {
  private let isOpen = Atomic<Bool>(false)
  func open() { isOpen.store(true, ordering: .releasing) }
  func wait() { while !isOpen.load(ordering: .acquiring) { sched_yield() } }
}
