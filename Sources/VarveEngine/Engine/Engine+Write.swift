/// The write path, from the API inwards: check, delay, commit (`CommitPipeline`), acknowledge.
extension Engine {
  /// Sets the value of a key.
  ///
  /// Returns the sequence number of the commit. Throws `.limitExceeded`, `.familyDropped`, `.closed`, `.readOnly`,
  /// `.noSpace`, `.tooManyOpenFiles`, `.noMemory`, `.inputOutput`, and `.outcomeUnknown` if the sync that `durability`
  /// requires failed. <doc:DiskErrors> describes what each error of the disk means.
  /// Complexity: O(log n) in the memtable's entries; no system call while it and the log have room.
  @discardableResult
  @inline(__always)
  public func put(
    _ key: RawSpan, _ value: RawSpan, in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in
        try core.commit(.put, key, value, family, durability)
      }
    }
  }

  /// Removes a key, whether it is there or not. Throws like `put`.
  @discardableResult
  public func delete(
    _ key: RawSpan, in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try key.withByteView { (key) throws(EngineError) in
      try core.commit(.delete, key, ByteView(), family, durability)
    }
  }

  /// Sets the value of a key; key and value are arrays.
  @discardableResult
  public func put(
    _ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try unsafe put(key.span.bytes, value.span.bytes, in: family, durability: durability)
  }

  /// Removes a key given as an array.
  @discardableResult
  public func delete(
    _ key: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try unsafe delete(key.span.bytes, in: family, durability: durability)
  }

  /// Removes a key that was put exactly once since it was last removed: see `WriteBatch.singleDelete`.
  @discardableResult
  public func singleDelete(
    _ key: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try unsafe key.span.bytes.withByteView { (key) throws(EngineError) in
      try core.commit(.singleDelete, key, ByteView(), family, durability)
    }
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded) by one entry: see
  /// `WriteBatch.deleteRange`.
  ///
  /// Tables that are completely inside are dropped without being read. Complexity: O(log n) in the memtable's range
  /// tombstones.
  @discardableResult
  public func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    var batch = WriteBatch(capacity: lower.count + upper.count + 32)
    try batch.deleteRange(from: lower, to: upper, in: family)
    return try write(batch, durability: durability)
  }

  /// Folds an operand into the value of a key, without reading it: see `MergeOperator`.
  ///
  /// Throws like `put`, and `.invalidArgument` if the family has no merge operator.
  @discardableResult
  public func merge(
    _ key: RawSpan, _ operand: RawSpan, in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try core.requireOpen()
    let state = core.state(of: family)
    if state.merge == nil { throw CommitPipeline.operatorError(state) }
    return try key.withByteView { (key) throws(EngineError) in
      try operand.withByteView { (operand) throws(EngineError) in
        try core.commit(.merge, key, operand, family, durability)
      }
    }
  }

  /// Folds an operand into the value of a key; key and operand are arrays.
  @discardableResult
  public func merge(
    _ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try unsafe merge(key.span.bytes, operand.span.bytes, in: family, durability: durability)
  }

  /// Commits a batch atomically, over all families.
  ///
  /// Returns the sequence number of its last entry. Throws the errors of `put`. After an error the batch changed
  /// nothing, except after `.outcomeUnknown`.
  @discardableResult
  public func write(
    _ batch: borrowing WriteBatch, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    try core.write(batch, durability: durability)
  }

  /// Commits a batch, and returns when it is visible to reads. The ticket's `wait` returns when it has the requested
  /// durability.
  public func submit(
    _ batch: borrowing WriteBatch, durability: Durability? = nil
  ) throws(EngineError) -> CommitTicket {
    try core.submit(batch, durability: durability, condition: nil)
  }

  /// Commits a batch that is not needed afterwards, like `submit(_:durability:)`: its stamps are written directly into
  /// it, and nothing is copied.
  public func submit(
    once batch: consuming WriteBatch, durability: Durability? = nil
  ) throws(EngineError) -> CommitTicket {
    try core.submit(batch, isLast: true, durability: durability, condition: nil)
  }

  /// Makes every commit that was acknowledged so far survive a power loss.
  public func sync() throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    try core.syncLog(through: core.pipeline.log.appendedPosition)
  }

  /// Makes every logged commit up to a sequence survive a power loss, and possibly later ones.
  ///
  /// Returns at once if they are durable already; calls of several threads share a sync.
  ///
  /// Throws `.invalidArgument` if no such commit exists yet, and `.outcomeUnknown` if the sync failed.
  public func sync(through sequence: SequenceNumber) throws(EngineError) {
    try core.requireOpen()
    try core.requireWritable()
    let visible = core.pipeline.visible
    guard sequence <= visible else {
      throw EngineError(.invalidArgument, "sequence \(sequence) is not committed yet: the last commit is \(visible)")
    }
    // The position is loaded before the check: the commit is either durable by then, or appended by now.
    let position = core.pipeline.log.appendedPosition
    if core.pipeline.log.durableSequence >= sequence { return }
    try core.syncLog(through: position)
  }

  /// A Boolean value that indicates whether a write may have to wait now because flushes or compactions are late.
  ///
  /// Callers that must not block, such as tasks, should then pass the write to another thread. The result can change
  /// before the write. Costs two loads and a short lock. Safe from any thread.
  public var mayDelayWrites: Bool {
    core.checkOpen()
    return !core.background.controller.isFree || core.pipeline.memory.isNearlyFull
  }

  /// The last logged commit for which it is known that it and all logged commits before it survive a power loss.
  ///
  /// Later ones may survive, too. Commits that were not logged count only once they were flushed.
  public var durableSequence: SequenceNumber {
    core.checkOpen()
    return core.pipeline.log.durableSequence
  }
}

/// The implementation of the write path.
extension EngineCore {
  /// The implementation of `Engine.write`.
  fileprivate func write(
    _ batch: borrowing WriteBatch, durability: Durability?
  ) throws(EngineError) -> SequenceNumber {
    let start = OperationLatencies.isSample(pipeline.visible) ? beginTimed() : 0
    let ticket = try submit(batch, durability: durability, condition: nil)
    try ticket.wait()
    if start != 0 { endTimed(.write, from: start) }
    return ticket.sequence
  }

  /// Commits a batch if `condition`, which is checked when the batch is committed, does not throw.
  ///
  /// Throws the condition's error, and like `Engine.submit`. If `isLast` is true, the batch is not written again, so
  /// its stamps can be written into it.
  func submit(
    _ batch: borrowing WriteBatch, isLast: Bool = false, durability: Durability?, condition: (any CommitCondition)?
  ) throws(EngineError) -> CommitTicket {
    try requireOpen()
    try requireWritable()
    let durability = durability ?? options.durability
    background.delayWrite(bytes: batch.byteCount)
    let charge =
      batch.byteCount > Limits.largeSize ? MemoryCharge(batch.byteCount, to: tree.budget.account(.other)) : nil
    defer { charge?.resize(to: 0) }
    var prepared: PreparedTombstones?
    if batch.rangeDeleteCount >= PreparedTombstones.countMinimum {
      prepared = try PreparedTombstones(batch.payload.view) { [registry] in registry.find($0)?.isVolatile ?? false }
    }
    let receipt: CommitPipeline.Receipt
    let terms = CommitTerms(
      stamps: batch.stamps, condition: condition, waitsForSync: durability == .power, prepared: prepared,
      ownByteCount: batch.ownByteCount)
    if isLast || batch.stamps.isEmpty {
      receipt = try pipeline.commit(
        payload: batch.payload.view, entryCount: batch.count, isLogged: durability != .none, terms: terms)
    } else {
      let copy = try batch.payloadCopy()
      charge?.resize(to: 2 * copy.count)
      receipt = try pipeline.commit(
        payload: copy.view, entryCount: batch.count, isLogged: durability != .none, terms: terms)
    }
    // A commit with `.powerEvery` is synced even if no caller waits for the ticket.
    if case .powerEvery = durability { try acknowledge(receipt, durability) }
    return CommitTicket(engine: self, receipt: receipt, durability: durability)
  }

  @inline(__always)
  fileprivate func commit(
    _ kind: EntryKind, _ key: ByteView, _ value: ByteView, _ family: ColumnFamily?, _ durability: Durability?
  ) throws(EngineError) -> SequenceNumber {
    if OperationLatencies.isSample(pipeline.visible) { return try commitTimed(kind, key, value, family, durability) }
    return try commitUntimed(kind, key, value, family, durability)
  }

  /// Commits one entry with time stamps, which one commit in 64 does. A separate copy, so that the other commits need
  /// none.
  @inline(never)
  private func commitTimed(
    _ kind: EntryKind, _ key: ByteView, _ value: ByteView, _ family: ColumnFamily?, _ durability: Durability?
  ) throws(EngineError) -> SequenceNumber {
    let start = beginTimed()
    let sequence = try commitUntimed(kind, key, value, family, durability)
    endTimed(.put, from: start)
    return sequence
  }

  @inline(__always)
  private func commitUntimed(
    _ kind: EntryKind, _ key: ByteView, _ value: ByteView, _ family: ColumnFamily?, _ durability: Durability?
  ) throws(EngineError) -> SequenceNumber {
    try requireOpen()
    if options.readOnly { try requireWritable() }
    let state = unsafe Unmanaged.passUnretained(state(of: family))
    try BatchFormat.checkLimits(key: key, value: value, batchSize: 0)
    let durability = durability ?? options.durability
    background.delayWrite(bytes: key.count &+ value.count)
    let receipt = unsafe try state.withGuaranteed { (state) throws(EngineError) in
      try pipeline.commit(kind, state, key, value, isLogged: durability != .none, waitsForSync: durability == .power)
    }
    if durability != .process { try acknowledge(receipt, durability) }
    return receipt.sequence
  }

  /// Returns when a commit has the requested durability.
  func acknowledge(_ receipt: CommitPipeline.Receipt, _ durability: Durability) throws(EngineError) {
    switch durability {
    case .process, .none: return
    case .power: try syncLog(through: receipt.position)
    case .powerEvery(let nanoseconds): timers.syncLater(after: nanoseconds)
    }
  }

  /// Syncs the log for a thread of the program. After a failure, entries that are not durable are logged again.
  func syncLog(through position: LogPosition) throws(EngineError) {
    do throws(EngineError) {
      try pipeline.sync(.position(position), for: .program)
    } catch {
      throw EngineError(
        .outcomeUnknown, "the commit is visible, but its sync failed, and it may be gone after a loss of power",
        cause: error, file: error.file)
    }
    timers.endRecordLater()
  }
}

extension EngineCore: LogSyncer {}

/// A commit that is visible, but may not have the requested durability yet.
public struct CommitTicket: Sendable {
  let engine: EngineCore
  private let receipt: CommitPipeline.Receipt
  private let durability: Durability

  init(engine: EngineCore, receipt: CommitPipeline.Receipt, durability: Durability) {
    self.engine = engine
    self.receipt = receipt
    self.durability = durability
  }

  /// The sequence number of the batch's last entry.
  public var sequence: SequenceNumber { receipt.sequence }

  /// Returns when the commit has the requested durability. Throws `.outcomeUnknown` if the sync failed.
  public func wait() throws(EngineError) { try engine.acknowledge(receipt, durability) }

  /// A Boolean value that indicates whether a part of the commit is in the log.
  ///
  /// It is false with `.none`, and if all entries of the commit belong to volatile families. `wait` returns at once for
  /// a commit that is not in the log, and `durableSequence` does not include it.
  public var isLogged: Bool { receipt.position > .zero }

  /// The log position after the commit, or zero if it is not in the log.
  var position: LogPosition { receipt.position }

  /// A Boolean value that indicates whether `wait` would have to sync.
  var needsWait: Bool { durability == .power }
}
