import CVarve
import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Slots for blocks, with a pool of the test's own.
struct BlockPagesTests {
  /// A slot that is filled with its mark.
  ///
  /// # Safety
  /// Taken by `init`, and used before `release`.
  @safe
  private struct Slot: @unchecked Sendable {
    let base: UnsafeMutableRawPointer
    let pageCount: Int
    let mark: UInt8
    /// Whether it was zeros when it was taken.
    let wasZero: Bool

    init?(_ pages: BlockPages, _ pageCount: Int, mark: UInt8) {
      guard let base = unsafe pages.take(pages: pageCount, stripe: Int(mark)) else { return nil }
      unsafe self.base = base
      self.pageCount = pageCount
      self.mark = mark
      wasZero = unsafe UnsafeRawBufferPointer(start: base, count: pageCount << 12).allSatisfy { $0 == 0 }
      unsafe base.initializeMemory(as: UInt8.self, repeating: mark, count: pageCount << 12)
    }

    var isIntact: Bool {
      unsafe UnsafeRawBufferPointer(start: base, count: pageCount << 12).allSatisfy { $0 == mark }
    }

    func release(to pages: BlockPages) { unsafe pages.release(base, pages: pageCount) }
  }

  private final class Shared: Sendable {
    let slots = Mutex<[Slot]>([])
    let faults = Atomic<Int>(0)
  }

  @Test(.enabled(if: !cvarve_has_address_sanitizer()))
  func `a block gets as many pages as it needs, unless more than a quarter of them would be wasted`() {
    let expected: [Int: Int?] = [
      0: nil, 16: nil, 3_072: nil, 3_073: 1, 4_096: 1, 4_097: nil, 6_144: nil, 6_145: 2, 8_192: 2, 8_193: nil,
      9_217: 3, 12_288: 3, 12_289: 4, 16_385: 5, 32_768: 8, 32_769: nil, 1 << 20: nil,
    ]
    for (count, pages) in expected { #expect(BlockPages.pages(for: count) == pages, "\(count) bytes") }
  }

  @Test(arguments: 0..<4 as Range<UInt64>)
  func `slots are nobody else's while they are taken, and all memory goes back`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let pages = BlockPages()
    var slots: [Slot] = []
    var taken = 0
    for step in 0..<TestScale.atMost(6_000) {
      if random.below(1_000) == 0 { pages.trim() }
      // Fills up, then empties, and so on.
      let grows = random.below(100) < (step / 1_500 % 2 == 0 ? 70 : 30)
      if grows || slots.isEmpty {
        let count = 1 + random.below(BlockPages.pagesMaximum)
        let slot = try #require(Slot(pages, count, mark: UInt8(truncatingIfNeeded: step)))
        #expect(unsafe Int(bitPattern: slot.base) % 4_096 == 0)
        slots.append(slot)
        taken += count << 12
      } else {
        slots.swapAt(random.below(slots.count), slots.count - 1)
        let slot = slots.removeLast()
        #expect(slot.isIntact, "seed \(seed), step \(step)")
        slot.release(to: pages)
        taken -= slot.pageCount << 12
      }
      #expect(pages.statistics.taken == taken)
    }
    for slot in slots {
      #expect(slot.isIntact)
      slot.release(to: pages)
    }
    #expect(pages.statistics.mapped > 0 && pages.statistics.idle > 0)
    pages.trim()
    #expect(pages.statistics == BlockPages.Statistics())
  }

  @Test func `what is trimmed has no memory any more, and what stays between keeps its bytes`() throws {
    let pages = BlockPages()
    var slots: [Slot] = []
    for number in 0..<2_000 { slots.append(try #require(Slot(pages, 1, mark: UInt8(1 + number % 200)))) }
    for (number, slot) in slots.enumerated() where number % 10 != 0 { slot.release(to: pages) }
    #expect(pages.statistics.idle == 1_800 << 12)
    pages.trim()
    #expect(pages.statistics.idle == 0)
    #expect(pages.statistics.taken == 200 << 12)
    #expect(slots.enumerated().allSatisfy { $0.offset % 10 != 0 || $0.element.isIntact })
    // Pages that went back are zeros when they come again.
    var again: [Slot] = []
    for _ in 0..<1_000 { again.append(try #require(Slot(pages, 1, mark: 7))) }
    #if os(Linux)
      #expect(again.allSatisfy { $0.wasZero })
    #endif
    for slot in again { slot.release(to: pages) }
    for (number, slot) in slots.enumerated() where number % 10 == 0 { slot.release(to: pages) }
    pages.trim()
    #expect(pages.statistics == BlockPages.Statistics())
  }

  @Test func `free slots beyond a bound go back, a region at a time`() throws {
    let pages = BlockPages()
    var slots: [Slot] = []
    for _ in 0..<2_000 { slots.append(try #require(Slot(pages, 1, mark: 3))) }
    for slot in slots { slot.release(to: pages) }
    #expect(pages.statistics.idle == 2_000 << 12)
    pages.trim(stripe: 3, above: 2_000 << 12)
    #expect(pages.statistics.idle == 2_000 << 12)
    pages.trim(stripe: 4, above: 0)
    #expect(pages.statistics.idle == 2_000 << 12)
    pages.trim(stripe: 3, above: 1 << 20)
    let left = pages.statistics.idle
    #expect(left < 2_000 << 12 && left >= 1_489 << 12, "\(left >> 12) pages")
    for _ in 0..<20 { pages.trim(stripe: 3, above: 1 << 20) }
    #expect(pages.statistics.idle <= 1 << 20)
  }

  @Test func `slots go from thread to thread`() {
    let pages = BlockPages()
    let shared = Shared()
    runThreads(4) { thread in
      var random = SeededRandom(seed: UInt64(thread))
      for step in 0..<TestScale.atMost(3_000) {
        if random.oneIn(2) {
          let mark = UInt8(truncatingIfNeeded: step)
          guard let slot = Slot(pages, 1 + random.below(2), mark: mark) else { continue }
          shared.slots.withLock { $0.append(slot) }
        } else if let slot = shared.slots.withLock({ $0.popLast() }) {
          if !slot.isIntact { shared.faults.add(1, ordering: .relaxed) }
          slot.release(to: pages)
        }
        if thread == 0, random.oneIn(200) { pages.trim() }
      }
    }
    for slot in shared.slots.withLock({ $0 }) { slot.release(to: pages) }
    pages.trim()
    #expect(shared.faults.load(ordering: .relaxed) == 0)
    #expect(pages.statistics == BlockPages.Statistics())
  }

  @Test(.enabled(if: !cvarve_has_address_sanitizer()))
  func `blocks of the usual sizes lie in slots`() {
    for count in [3_500, 4_096, 8_000] {
      let memory = BlockMemory.allocate(count)
      #expect(unsafe Int(bitPattern: memory.base) % 4_096 == 0)
    }
  }
}
