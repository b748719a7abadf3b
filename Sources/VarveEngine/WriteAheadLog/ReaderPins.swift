/// Decides which segments a writing engine keeps for readers in other processes (`SharedPage+Slots`).
///
/// A reader keeps segments while it reads the log once. A slot is honoured for 10 seconds, and while the segments that
/// are kept for readers alone have at most as many bytes as the bound of the log: a reader that is stopped costs a
/// writer no more than that. A slot of a process that has ended is not honoured.
///
/// The log guards it.
struct ReaderPins: Sendable {
  private let page: SharedPage
  private let clock: any EngineClock
  private let namespace = ProcessIdentity.namespace
  /// The time at which each slot's owner was first seen.
  private var seen: [Int: (owner: UInt64, at: UInt64)] = [:]

  /// The time for which a slot is honoured, in nanoseconds.
  static let honouredNanoseconds: UInt64 = 10_000_000_000

  init(_ page: SharedPage, _ clock: any EngineClock) {
    self.page = page
    self.clock = clock
  }

  /// Announces that segments before `bound` may be freed, and returns the first segment that must stay, or `bound`.
  mutating func firstKept(before bound: FileNumber, isWithinBytes: Bool) -> FileNumber {
    page.setKept(bound)
    var first = bound
    for index in 0..<SharedPage.slotCount {
      guard let slot = page.slot(index) else {
        seen[index] = nil
        continue
      }
      guard isHonoured(slot, index) else {
        page.free(index, owner: slot.owner)
        continue
      }
      if isWithinBytes, slot.segment < first { first = slot.segment }
    }
    return first
  }

  private mutating func isHonoured(_ slot: SharedPage.Slot, _ index: Int) -> Bool {
    let now = clock.now()
    if seen[index]?.owner != slot.owner { seen[index] = (slot.owner, now) }
    guard let since = seen[index]?.at, now - min(since, now) < Self.honouredNanoseconds else { return false }
    guard let process = slot.process, process.namespace == namespace, namespace != 0 else { return true }
    return process.identity.isAlive
  }
}
