import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of when an object is released that reads use without counting a reference.
struct ReadEpochTests {
  /// An object that records when it is released.
  private final class Token: Sendable {
    let flag: Flag
    init(_ flag: Flag) { self.flag = flag }
    deinit { flag.isGone.store(true, ordering: .sequentiallyConsistent) }
  }

  private final class Flag: Sendable {
    let isGone = Atomic<Bool>(false)
    var gone: Bool { isGone.load(ordering: .sequentiallyConsistent) }
  }

  private let clock = ManualClock(1_000)
  private let epochs: ReadEpochs

  init() { epochs = ReadEpochs(clock: clock) }

  /// Retires a new object, and returns a flag that is set when it is released.
  private func retire() -> Flag {
    let flag = Flag()
    epochs.retire(Token(flag))
    return flag
  }

  @Test func `without reads a retired object is released at once`() {
    for _ in 0..<10 { #expect(retire().gone) }
    #expect(epochs.deferredReleases == nil)
  }

  @Test func `an object waits for the reads that began before it was retired, and for no other`() {
    let before = epochs.enter()
    let flag = retire()
    let after = epochs.enter()
    #expect(!flag.gone && epochs.poll())
    epochs.leave(before)
    #expect(flag.gone, "the end of the last read releases it")
    epochs.leave(after)
    #expect(!epochs.poll())
  }

  /// In an earlier design, each slot had one counter, which reads that overlap keep above zero forever.
  @Test func `reads that overlap without a pause keep no object for longer than two reads`() {
    var current = epochs.enter()
    var flags: [Flag] = []
    for round in 0..<1_000 {
      flags.append(retire())
      let next = epochs.enter()
      epochs.leave(current)
      current = next
      if round >= 3 { #expect(flags[round - 3].gone, "round \(round)") }
    }
    epochs.leave(current)
    #expect(flags.allSatisfy { $0.gone })
  }

  /// The read is stopped between its load of the parity and its mark: the objects that it loads afterwards must be
  /// kept, whatever the current parity is by then.
  @Test(arguments: 0..<4)
  func `a read that stopped before its mark keeps the objects that it loads, over two retirements`(earlier: Int) {
    let parity = epochs.parity
    // The parity changes while the read is stopped.
    for _ in 0..<earlier { #expect(retire().gone) }
    let mark = epochs.mark(parity)
    // The read continues: it loads the pointers to these two objects, which are replaced now.
    let first = retire()
    #expect(!first.gone)
    let second = retire()
    #expect(!first.gone && !second.gone)
    epochs.poll()
    #expect(!first.gone && !second.gone)
    epochs.leave(mark)
    #expect(first.gone && second.gone)
  }

  @Test func `objects that are retired inside of a read are released at its end`() {
    let mark = epochs.enter()
    let flags = (0..<5).map { _ in retire() }
    #expect(flags.allSatisfy { !$0.gone })
    epochs.leave(mark)
    #expect(flags.allSatisfy { $0.gone })
  }

  @Test func `a caller is notified of objects that reads keep, with their age and their weight`() {
    let notified = Atomic<Int>(0)
    epochs.onDeferredRelease { notified.add(1, ordering: .relaxed) }
    _ = retire()
    #expect(notified.load(ordering: .relaxed) == 0)
    let mark = epochs.enter()
    epochs.retire(Token(Flag()), weight: ReadEpochs.Weight(memTableCount: 2, bytes: 300))
    clock.advance(5_000)
    epochs.retire(Token(Flag()), weight: ReadEpochs.Weight(memTableCount: 1, bytes: 4))
    #expect(notified.load(ordering: .relaxed) == 2)
    let deferredReleases = epochs.deferredReleases
    #expect(deferredReleases?.ageNanoseconds == 5_000)
    #expect(deferredReleases?.weight == ReadEpochs.Weight(memTableCount: 3, bytes: 304))
    epochs.leave(mark)
    #expect(epochs.deferredReleases == nil)
  }

  @Test func `reads are counted in both parities`() {
    for round in 0..<100 {
      let mark = epochs.enter()
      _ = epochs.countIsSample(mark)
      if round % 3 == 0 { _ = retire() }
      epochs.leave(mark)
    }
    #expect(epochs.readCount == 100)
  }

  /// Readers load a number inside an epoch, and check twice whether its object has been released.
  @Test func `threads that read without a pause never load a released object`() {
    let count = TestScale.atMost(20_000)
    let flags = (0..<count).map { _ in Flag() }
    let current = Atomic<Int>(0)
    let wrong = Atomic<Int>(0)
    let epochs = epochs
    let readers = (0..<6).map { number in
      EngineThread(name: "reader") {
        while true {
          let mark = epochs.enter()
          let index = current.load(ordering: .sequentiallyConsistent)
          if flags[index].gone { wrong.add(1, ordering: .relaxed) }
          for _ in 0..<10 * number where current.load(ordering: .relaxed) < 0 { break }
          if flags[index].gone { wrong.add(1, ordering: .relaxed) }
          epochs.leave(mark)
          if index == count - 1 { return }
        }
      }
    }
    for index in 1..<count {
      current.store(index, ordering: .sequentiallyConsistent)
      epochs.retire(Token(flags[index - 1]))
    }
    for reader in readers { reader.join() }
    #expect(wrong.load(ordering: .relaxed) == 0)
    #expect(!epochs.poll())
    #expect(flags.dropLast().allSatisfy { $0.gone })
  }
}
