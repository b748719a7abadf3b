/// The space that compactions need, on a disk that may be too small for them.
///
/// A compaction is chosen only if its outputs fit beside its inputs and beside the outputs of those that run. What
/// drops or moves tables needs no space, and is always done. A family waits if it has a compaction due, but none that
/// fits. One whose compaction failed for lack of space although it seemed to fit has only smaller ones, of at most half
/// of the need, until there is more by the size of that compaction. Both are looked at again when a file was removed
/// and every five seconds: reading the free space costs a few microseconds, and an attempt that fails writes as much as
/// there is space.
///
/// A file system may report space that it does not give, for example beyond a quota. After a failure there the family
/// has no compaction that writes. The failed one is attempted again after one such look, then after two, four, and so
/// on.
struct CompactionSpace: Sendable {
  /// The space of one compaction.
  struct Need: Sendable {
    /// The estimated bytes of the outputs.
    let outputs: UInt64
    /// The bytes of the inputs, or zero if nothing is written.
    let size: UInt64

    static let none = Need(outputs: 0, size: 0)
  }

  /// A compaction that found no space.
  private struct Failure: Sendable {
    let size: UInt64
    /// The bytes that the outputs of other compactions of the family may take until then.
    let limit: UInt64
    /// The free space from which on the family is compacted again.
    let awaited: UInt64
    /// The number of looks at the free space that still pass before the next attempt, if it is reported.
    var looksLeft: Int
    let error: EngineError

    /// A Boolean value that indicates whether even an edit of the MANIFEST found no space.
    var stopsAll: Bool { size == 0 }

    mutating func passLook() { looksLeft -= looksLeft > 0 ? 1 : 0 }
  }

  /// The free space at the last measurement, or `UInt64.max` if it isn't known.
  private(set) var free = UInt64.max
  private var needs: [CompactionsInProgress.Ticket: Need] = [:]
  private var failures: [FamilyID: Failure] = [:]
  /// The number of failures in a row, by family, after which as much as was needed was reported as free.
  private var refusals: [FamilyID: Int] = [:]
  /// Families with a compaction due that does not fit, and what it needs.
  private var waiting: [FamilyID: EngineError] = [:]
  /// A Boolean value that indicates whether a compaction ended, and with it a claim to space, since the last
  /// measurement.
  private var hasEnded = false
  /// A Boolean value that indicates whether a timer reads the free space.
  var isPollSet = false
  /// A Boolean value that indicates whether the present lack of space was reported.
  private var isReported = false

  /// The reason for which a family waits, or `nil` if none does.
  var error: EngineError? {
    (failures.min { $0.key < $1.key })?.value.error ?? (waiting.min { $0.key < $1.key })?.value
  }

  var isWaiting: Bool { !failures.isEmpty || !waiting.isEmpty }

  /// The families with a compaction due that does not fit.
  var waitingFamilies: [FamilyID] { waiting.keys.sorted() }

  /// Returns the bytes that the outputs of a family's next compaction may take, beside those of running compactions
  /// that have `written` so many already. Some are left for the edit of the MANIFEST.
  func available(to family: FamilyID, written: [CompactionsInProgress.Ticket: UInt64]) -> UInt64 {
    let limit = failures[family]?.limit ?? .max
    if free == .max { return limit }
    let assigned = needs.reduce(0) { $0 + ($1.value.outputs - min($1.value.outputs, written[$1.key] ?? 0)) }
    return min(free - min(free, assigned + Self.editSize), limit)
  }

  /// Returns whether a compaction of the family found no space, and there is not more yet.
  func hasFailed(_ family: FamilyID) -> Bool { failures[family] != nil }

  /// Returns whether not even tables of the family can be dropped or moved.
  func isStopped(_ family: FamilyID) -> Bool { failures[family]?.stopsAll ?? false }

  mutating func begin(_ compaction: Compaction, _ ticket: CompactionsInProgress.Ticket) {
    let need = compaction.spaceNeed
    needs[ticket] = Need(
      outputs: need, size: compaction.isTrivialMove || compaction.dropsInputs ? 0 : compaction.inputSize)
  }

  /// Notes the end of a compaction, and returns what it needed.
  mutating func end(_ ticket: CompactionsInProgress.Ticket) -> Need {
    let need = needs.removeValue(forKey: ticket) ?? .none
    if need.size > 0 { hasEnded = true }
    return need
  }

  /// Notes a compaction that found no space when it had `written` so many bytes. Its outputs are removed.
  mutating func noteFailure(of family: FamilyID, _ need: Need, written: UInt64, _ error: EngineError) {
    let awaited = written + max(need.size, Self.editSize)
    let count = free >= awaited ? (refusals[family] ?? 0) + 1 : 0
    refusals[family] = count == 0 ? nil : count
    failures[family] = Failure(
      size: need.size, limit: count == 0 ? need.outputs / 2 : 0, awaited: awaited,
      looksLeft: 1 << min(max(count - 1, 0), 16), error: error)
    waiting[family] = nil
    isReported = true
  }

  /// The space that an edit of the MANIFEST is assumed to need.
  private static let editSize: UInt64 = 64 << 10

  /// Notes that a family has a compaction due that does not fit, or has none (`nil`). Returns whether that must be
  /// reported.
  mutating func wait(_ family: FamilyID, _ error: EngineError?) -> Bool {
    waiting[family] = error
    if error == nil { return false }
    defer { isReported = true }
    return !isReported
  }

  /// Notes the free space, and returns the families that may have something to do now.
  mutating func update(free: UInt64) -> [FamilyID] {
    var families = free > self.free || hasEnded ? Array(waiting.keys) : []
    self.free = free
    hasEnded = false
    for (family, failure) in failures where failure.looksLeft == 0 && failure.awaited <= free {
      families.append(family)
    }
    for family in families { (failures[family], waiting[family]) = (nil, nil) }
    return families
  }

  /// Notes that the timer has ended.
  mutating func endPoll() {
    isPollSet = false
    for family in failures.keys { failures[family]?.passLook() }
  }

  /// Ends all waiting, because a caller asks for another attempt. Returns the families.
  mutating func retryAll() -> [FamilyID] {
    defer { (failures, waiting, refusals) = ([:], [:], [:]) }
    return Array(failures.keys) + Array(waiting.keys)
  }

  mutating func forget(_ family: FamilyID) {
    failures[family] = nil
    waiting[family] = nil
    refusals[family] = nil
  }

  /// Notes that a compaction succeeded: a lack of space that follows is reported again, if no family waits.
  mutating func didSucceed(_ family: FamilyID) {
    refusals[family] = nil
    if !isWaiting { isReported = false }
  }
}
