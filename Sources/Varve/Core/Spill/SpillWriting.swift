/// The writes of an extension to its parts that a build by tables has collected.
///
/// It belongs to one thread at a time: that of the build.
final class Spill {
  let registered: RegisteredExtension
  /// The families by which the transactions of the build address the parts. They do not exist in the storage: their
  /// numbers are the highest possible family number minus the index of the part.
  let families: [StorageFamily?]
  /// The runs, by the index of the part.
  private(set) var runs: [SpillRun]
  /// The memory of the entries, in bytes.
  private(set) var byteCount = 0
  /// The first operation of the extension that can't be collected, or `nil` if there was none.
  private(set) var refusal: String?

  /// The amount that was collected at a point in time.
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

  /// Removes the entries after a mark.
  func cut(to mark: Mark) {
    for (run, mark) in zip(runs, mark.runs) { run.cut(to: mark) }
    byteCount = mark.byteCount
  }

  /// Returns the collected runs, to be written by another thread, and continues with empty ones.
  func takeRuns(leaving emptied: [SpillRun]?) -> [SpillRun] {
    defer {
      runs = emptied ?? runs.map { SpillRun($0.rule) }
      byteCount = 0
    }
    return runs
  }

  /// Notes that the extension does something that can't be collected, so that it is built by puts, however it handles
  /// the returned error.
  func refuse(_ what: String) -> DatabaseError {
    if refusal == nil { refusal = what }
    return DatabaseError(
      .invalidArgument, "extension \"\(registered.name)\" \(what) while its build collects; it will be built by puts")
  }

  /// Returns the index of a part, or `nil` for any other family.
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

/// The writes of the transactions of a build by tables: puts and additions to parts of the extension are added to its
/// spill, and everything else is refused. Rows are read at the snapshot.
final class SpillWriting: StorageWriting {
  private let spill: Spill
  private let snapshot: any StorageSnapshot
  private let bytesBefore: Int

  init(_ spill: Spill, _ snapshot: any StorageSnapshot) {
    self.spill = spill
    self.snapshot = snapshot
    bytesBefore = spill.byteCount
  }

  /// Always true, because nothing is ever committed.
  var isEmpty: Bool { true }
  /// The number of bytes of this transaction.
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
  func markAsScratch(_ family: StorageFamily) throws { throw spill.refuse("uses a scratch part") }
  func isScratch(_ family: StorageFamily) -> Bool { false }

  /// Entries can't be undone once they are collected, so a savepoint is refused and everything collected is discarded.
  func setSavepoint() { _ = spill.refuse("sets a savepoint") }
  func releaseSavepoint() {}
  func rollBack() {}

  // MARK: - Reading

  func hasAppended(to family: StorageFamily) -> Bool { false }
  func appendedChange(of key: [UInt8], in family: StorageFamily) -> AppendedChange? { nil }
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
