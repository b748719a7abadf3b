internal import Synchronization

/// A snapshot whose reads throw `CancellationError` once the task that makes them is cancelled.
///
/// The asynchronous reads of the program read through it, and nothing else does: a write, a build, or a read that this
/// module makes for itself must not end because the task that happens to run it was cancelled. Because the check is in
/// the snapshot, everything that reads can be ended, whatever it reads for: a query, a sort, the verification of
/// indexes, an extension, and a sequence that outlives its transaction. A sort, which works long in memory, checks by
/// itself (`ReadTransaction.isCancellable`).
///
/// A read that makes many calls is a long one, which pauses from time to time if there are many (`ReadPace`).
///
/// Cost: a few nanoseconds a call.
final class CancellableSnapshot: StorageSnapshot {
  private let snapshot: any StorageSnapshot
  /// Paces the read, or nil for a storage in memory, whose reads run on threads of the program.
  private let pace: ReadPace?
  private let callCount = Atomic<UInt32>(0)
  /// The processor time of the thread at the last look; 0 before the read is a long one, and after its end.
  private let lastTime = Atomic<UInt64>(0)
  private let hasEnded = Atomic<Bool>(false)

  /// The mask that makes a read look at every 16th call whether it has to pause.
  private static var paceMask: UInt32 { 15 }

  /// The number of values that are read before the task is checked for cancellation again.
  private static var valuesMaximum: Int { 256 }

  init(_ snapshot: any StorageSnapshot, _ database: DatabaseCore) {
    self.snapshot = snapshot
    pace = database.backend.isInMemory ? nil : database.readPace
  }

  deinit { end() }

  /// Ends the pace of the read. What reads the snapshot later, such as a sequence that retains it, is not paced.
  func end() {
    if !hasEnded.exchange(true, ordering: .relaxed), lastTime.load(ordering: .relaxed) > 0 { pace?.end() }
  }

  /// Called at each call. Throws `CancellationError` if the task is cancelled.
  @inline(__always)
  private func check() throws {
    try Task.checkCancellation()
    if callCount.wrappingAdd(1, ordering: .relaxed).newValue & Self.paceMask == 0 { try keepPace() }
  }

  @inline(never)
  private func keepPace() throws {
    guard let pace, !hasEnded.load(ordering: .relaxed) else { return }
    let time = max(ReadPace.processorTime, 1)
    let last = lastTime.exchange(time, ordering: .relaxed)
    if last == 0 { return pace.begin() }
    try pace.pause(after: time > last ? time - last : 0)
  }

  var version: CommitVersion { snapshot.version }

  func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool {
    snapshot.hasFormerFamily(named: name, besides: family)
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try check()
    try snapshot.visit(key, in: family, body)
  }

  func value(of key: [UInt8], in family: StorageFamily) throws -> [UInt8]? {
    try check()
    return try snapshot.value(of: key, in: family)
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    try check()
    if keys.count <= Self.valuesMaximum { return try snapshot.values(of: keys, in: family) }
    var values: [[UInt8]?] = []
    values.reserveCapacity(keys.count)
    var rest = keys[...]
    while !rest.isEmpty {
      try check()
      values += try snapshot.values(of: Array(rest.prefix(Self.valuesMaximum)), in: family)
      rest = rest.dropFirst(Self.valuesMaximum)
    }
    return values
  }

  func visitRow(
    at offset: Int, of range: StorageRange, in family: StorageFamily,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws -> Int {
    try ending { try snapshot.visitRow(at: offset, of: range, in: family, body) }
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    try ending {
      try snapshot.page(
        range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    }
  }

  /// Calls `body`, which may pass many deleted keys, and ends it too.
  private func ending<Result>(_ body: () throws -> Result) throws -> Result {
    try check()
    return try endingIfCancelled(body)
  }
}
