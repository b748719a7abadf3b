/// What a build by tables has collected of what an extension writes to its parts.
///
/// It belongs to one thread at a time, that of the build.
final class Spill {
  let registered: RegisteredExtension
  /// A part is known to the transactions of the build by a family that no storage has: the number of the last family that
  /// there can be, less the index of the part.
  let families: [StorageFamily?]
  /// By the index of the part.
  private(set) var runs: [SpillRun]
  /// The memory that entries take.
  private(set) var byteCount = 0
  /// What the extension has done that is not collected; nil: nothing.
  private(set) var refusal: String?

  /// How much there was at a moment.
  struct Mark {
    fileprivate let runs: [SpillRun.Mark]
    fileprivate let byteCount: Int
  }

  init(_ registered: RegisteredExtension) {
    self.registered = registered
    families = registered.traits.parts.indices.map {
      StorageFamily(name: registered.traits.parts[$0].name, number: .max - UInt32($0))
    }
    runs = registered.traits.parts.map { SpillRun(PartForm($0.form).rule) }
  }

  var mark: Mark { Mark(runs: runs.map { $0.mark }, byteCount: byteCount) }

  /// Forgets what came after a mark.
  func cut(to mark: Mark) {
    for (run, mark) in zip(runs, mark.runs) { run.cut(to: mark) }
    byteCount = mark.byteCount
  }

  /// Gives away what was collected, to be written by another thread, and continues in empty runs.
  func takeRuns(leaving emptied: [SpillRun]?) -> [SpillRun] {
    defer {
      runs = emptied ?? runs.map { SpillRun($0.rule) }
      byteCount = 0
    }
    return runs
  }

  /// The extension does what is not collected: the build goes by puts, whatever the extension makes of the error.
  func refuse(_ what: String) -> DatabaseError {
    if refusal == nil { refusal = what }
    return DatabaseError(
      .invalidArgument, "extension \"\(registered.name)\" \(what) while its build collects; it will be built by puts")
  }

  /// The index of a part; nil for a family of others.
  @inline(__always)
  fileprivate func part(_ family: StorageFamily) -> Int? {
    let part = Int(UInt32.max - family.number)
    return part < runs.count ? part : nil
  }

  @inline(__always)
  fileprivate func put(_ key: RawSpan, _ value: RawSpan, _ part: Int) {
    runs[part].append(key, value)
    byteCount += key.byteCount + value.byteCount + SpillRun.overhead
  }

  fileprivate func add(_ number: Int64, to key: [UInt8], _ part: Int) {
    runs[part].append(key, number)
    byteCount += key.count + 8 + SpillRun.overhead
  }
}

/// What the transactions of a build by tables write: puts and additions to parts of the extension, which go into its
/// spill. Everything else is refused. Rows are read at the snapshot.
final class SpillWriting: StorageWriting {
  private let spill: Spill
  private let snapshot: any StorageSnapshot
  private let bytesBefore: Int

  init(_ spill: Spill, _ snapshot: any StorageSnapshot) {
    self.spill = spill
    self.snapshot = snapshot
    bytesBefore = spill.byteCount
  }

  /// Nothing is ever committed.
  var isEmpty: Bool { true }
  /// Of this transaction.
  var byteCount: Int { spill.byteCount - bytesBefore }

  // MARK: - Collected

  @inline(__always)
  private func part(_ family: StorageFamily) throws -> Int {
    if let part = spill.part(family) { return part }
    throw spill.refuse("writes to family \"\(family.name)\"")
  }

  func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws {
    spill.put(key, value, try part(family))
  }

  func add(_ number: Int64, by rule: CounterRule, to key: [UInt8], in family: StorageFamily) throws {
    spill.add(number, to: key, try part(family))
  }

  func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily
  ) throws {
    guard operation == .put else { throw spill.refuse("removes from a part") }
    spill.put(key, value, try part(family))
  }

  // MARK: - Refused

  func delete(_ key: [UInt8], in family: StorageFamily) throws { throw spill.refuse("removes from a part") }
  func singleDelete(_ key: [UInt8], in family: StorageFamily) throws { throw spill.refuse("removes from a part") }
  func deleteRange(_ range: StorageRange, in family: StorageFamily) throws {
    throw spill.refuse("removes from a part")
  }
  func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws {
    throw spill.refuse("puts a stamp")
  }
  func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws {
    throw spill.refuse("puts a stamp")
  }
  func leaveOut(_ family: StorageFamily) throws { throw spill.refuse("uses a scratch part") }
  func leavesOut(_ family: StorageFamily) -> Bool { false }

  /// What is undone was collected already, so all of it goes.
  func setSavepoint() { _ = spill.refuse("sets a savepoint") }
  func releaseSavepoint() {}
  func rollBack() {}

  // MARK: - Reading

  func hasAppended(to family: StorageFamily) -> Bool { false }
  func decides(_ key: [UInt8], in family: StorageFamily) -> Bool { false }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try requireNoPart(family)
    try snapshot.visit(key, in: family, body)
  }

  func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    try requireNoPart(family)
    try snapshot.visitFirst(of: range, in: family, body)
  }

  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    try requireNoPart(family)
    try snapshot.visitRows(of: range, in: family, body)
  }

  func view(of family: StorageFamily) -> any StorageReading {
    if spill.part(family) != nil { _ = spill.refuse("reads what it keeps") }
    return snapshot
  }

  private func requireNoPart(_ family: StorageFamily) throws {
    if spill.part(family) != nil { throw spill.refuse("reads what it keeps") }
  }
}
