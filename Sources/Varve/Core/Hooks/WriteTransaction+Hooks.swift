/// The delivery of changes to extensions: extensions are asked before a change, immediate ones receive it at once, and
/// all others receive it after the current change.
extension WriteTransaction {
  // MARK: - Who receives it

  /// Returns the plan for a change, or `nil` if no extension receives it.
  @inline(__always)
  func plan(for event: RowChange.Event, _ info: CollectionInfo) -> HookPlan? {
    if !hooks.hasSlots { return nil }
    let plan = plan(for: info)
    return plan.events.contains(event.kind) ? plan : nil
  }

  @inline(__always)
  func plan(for info: CollectionInfo) -> HookPlan {
    if let plan = hooks.lastPlan, plan.collection == info.record.id { return plan }
    let plan = registered.plan(info)
    hooks.lastPlan = plan
    return plan
  }

  /// Whether an extension other than the database's own receives the changes of a collection.
  func hasExternalListeners(_ info: CollectionInfo) -> Bool { hooks.hasSlots && plan(for: info).hasExternalListeners }

  /// Returns the parts of an extension for which a row counts, or `nil` if the extension does not receive the row's
  /// changes because its build has not reached the row.
  @inline(__always)
  private func parts(of slot: Int, _ facts: ChangeFacts) -> PartSet? {
    if hooks.slots[slot].isWhole { return .all }
    return partsWhileBuilt(slot, facts)
  }

  @inline(never)
  private func partsWhileBuilt(_ slot: Int, _ facts: ChangeFacts) -> PartSet? {
    // While the writer is held, no extension is added, removed or built further. A concurrent transaction detects that
    // at its commit.
    let reach = hooks.slots[slot].reach ?? BuildReach(registered.ordered[slot].record)
    hooks.slots[slot].reach = reach
    hooks.slots[slot].isWhole = reach.isWhole
    if reach.isWhole { return .all }
    let parts = reach.parts(at: facts.info.scanKey(facts.key))
    return parts.isEmpty ? nil : parts
  }

  @inline(__always)
  private func opened(_ slot: Int) throws -> OpenExtension {
    if let open = hooks.slots[slot].open { return open }
    return try openSlot(slot)
  }

  @inline(never)
  private func openSlot(_ slot: Int) throws -> OpenExtension {
    try requireWriter(for: registered.ordered[slot])
    let open = try open(registered.ordered[slot])
    hooks.slots[slot].open = open
    return open
  }

  /// Returns an extension of the list, opened, and those of its parts that have content, or `nil` if no part has any.
  func openStarted(_ slot: Int) throws -> (open: OpenExtension, parts: PartSet)? {
    let reach = hooks.slots[slot].reach ?? BuildReach(registered.ordered[slot].record)
    hooks.slots[slot].reach = reach
    hooks.slots[slot].isWhole = reach.isWhole
    let parts = reach.startedParts
    return parts.isEmpty ? nil : (try opened(slot), parts)
  }

  /// Sets the reach of an extension that this transaction builds, so that it receives the changes of other rows from
  /// now on. Returns the extension's slot, or `nil` if it has none.
  @discardableResult
  func setReach(_ reach: BuildReach, of extension: RegisteredExtension) -> Int? {
    guard let slot = registered.ordered.firstIndex(where: { $0 === `extension` }) else { return nil }
    hooks.slots[slot].reach = reach
    hooks.slots[slot].isWhole = reach.isWhole
    return slot
  }

  /// Moves the reach of the extension that this transaction builds and whose slot is `slot`.
  @inline(__always)
  func moveReach(of slot: Int, from watermark: [UInt8], to position: [UInt8]) {
    hooks.slots[slot].reach?.move(from: watermark, to: position)
  }

  /// Discards the reach that was set, so that the extension's record determines again which changes it receives.
  func forgetReach(of extension: RegisteredExtension) {
    guard let slot = registered.ordered.firstIndex(where: { $0 === `extension` }) else { return }
    hooks.slots[slot].reach = nil
    hooks.slots[slot].isWhole = false
  }

  // MARK: - The facts of a change

  /// Returns the facts of a change that is about to happen, for hooks. `old` is the row before the change, with its
  /// bytes if a hook needs them.
  func facts(
    _ event: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo, id: RowID, bytes: [UInt8],
    _ metadata: EncodedMetadata?, old: PresentRow?, _ plan: HookPlan
  ) throws -> ChangeFacts {
    let facts = usableFacts(info)
    var oldMetadata: [UInt8]?
    if let old, old.header.hasMetadata, plan.oldEvents.contains(event.kind) {
      oldMetadata = try ownMetadata(key, info)
    }
    facts.set(
      event, key, info, id: id, number: changes.changeCount, bytes: bytes, metadata, old: old, oldMetadata: oldMetadata,
      wasChanged: event != .inserted && hasChanged(key, info))
    return facts
  }

  /// Returns the facts object that the transaction reuses, or a new one while a hook runs, because hooks may still need
  /// the reused one.
  func usableFacts(_ info: CollectionInfo) -> ChangeFacts {
    if hooks.isRunning { return ChangeFacts(info) }
    if let kept = hooks.facts { return kept }
    let facts = ChangeFacts(info)
    hooks.facts = facts
    return facts
  }

  /// Returns the metadata of a row if this transaction itself has written them, or `nil` otherwise: committed metadata
  /// remain readable in the snapshot.
  func ownMetadata(_ key: [UInt8], _ info: CollectionInfo) throws -> [UInt8]? {
    pending.decides(key, in: info.metadata) ? try value(of: key, in: info.metadata) : nil
  }

  // MARK: - Before

  /// Throws if a hook runs that must not write.
  @inline(__always)
  func requireHookMayWrite() throws {
    if hooks.isAsking { throw Self.writesBefore }
  }

  /// Throws if a hook runs that must not write rows. Everything that changes rows begins with this call.
  @inline(__always)
  func requireRowsWritable() throws {
    if hooks.isAsking { throw Self.writesBefore }
    if let ban = hooks.rowBan { throw refused(ban) }
  }

  private func refused(_ ban: HookQueue.RowBan) -> DatabaseError {
    if ban == .ingestion, let spill { return spill.refuse("changes rows") }
    guard ban == .immediate else { return Self.writesBefore }
    let error = DatabaseError(
      .invalidArgument, "an extension with the delivery .immediate changes rows; it may write to its parts alone")
    doom(error)
    return error
  }

  private static var writesBefore: DatabaseError {
    DatabaseError(
      .invalidArgument,
      "a hook that is called before a change writes; it may throw, and the hook that is called after the change may write"
    )
  }

  /// Asks the extensions that are asked before a change. They must not write.
  @inline(__always)
  func ask(_ facts: ChangeFacts, _ plan: HookPlan) throws {
    if !plan.asked.isEmpty { try askEach(facts, plan) }
  }

  @inline(never)
  private func askEach(_ facts: ChangeFacts, _ plan: HookPlan) throws {
    var change = RowChange(facts, in: self)
    let kind = facts.event.kind
    for listener in plan.asked where listener.events.contains(kind) {
      guard let parts = parts(of: listener.slot, facts) else { continue }
      let open = try opened(listener.slot)
      change.parts = parts
      change.canReadOld = listener.needs.contains(.oldRows)
      hooks.isAsking = true
      defer { hooks.isAsking = false }
      try open.listener?.willChange(change)
    }
  }

  /// Runs a hook that must not write rows.
  func banningRows<Result>(_ ban: HookQueue.RowBan = .immediate, _ body: () throws -> Result) rethrows -> Result {
    let before = hooks.rowBan
    hooks.rowBan = ban
    defer { hooks.rowBan = before }
    return try body()
  }

  // MARK: - After

  /// Delivers a change that has happened to the extensions.
  func notify(_ facts: ChangeFacts, _ plan: HookPlan) throws {
    try notifyImmediate(facts, plan)
    try notifyLater(facts, plan)
  }

  /// Delivers a change to the immediate extensions, which receive it before the call returns, even inside a hook.
  @inline(__always)
  func notifyImmediate(_ facts: ChangeFacts, _ plan: HookPlan) throws {
    if plan.immediate.isEmpty { return }
    try dooming { try banningRows { try deliver(facts, to: plan.immediate) } }
  }

  /// Delivers a change to all other extensions. Inside a hook it is queued, and received after the current change.
  @inline(__always)
  func notifyLater(_ facts: ChangeFacts, _ plan: HookPlan) throws {
    if plan.later.isEmpty { return }
    if hooks.isRunning {
      facts.settle()
      hooks.events.append(.change(facts, plan))
      return try noteQueued()
    }
    try deliverThenDrain { try deliver(facts, to: plan.later) }
  }

  /// Runs a delivery to extensions, and then delivers the changes that they have made meanwhile.
  func deliverThenDrain(_ body: () throws -> Void) throws {
    hooks.isRunning = true
    defer { hooks.isRunning = false }
    do {
      try body()
      if !hooks.events.isEmpty { try drain() }
    } catch {
      hooks.events.removeAll()
      doom(error)
      throw error
    }
  }

  private func drain() throws {
    var index = 0
    while index < hooks.events.count {
      let event = hooks.events[index]
      index += 1
      try deliver(event)
      // Delivered events are dropped in batches, because there may be many. No savepoint is open between two
      // deliveries.
      if index == 1_024 {
        hooks.events.removeFirst(index)
        index = 0
      }
    }
    hooks.events.removeAll(keepingCapacity: true)
  }

  private func deliver(_ event: HookQueue.Event) throws {
    switch event {
    case .change(let facts, let plan): try deliver(facts, to: plan.later)
    case .dependency(let open, let name, let change): try deliver(change, of: name, to: open)
    case .all(let open, let parts, let collection): try removedAll(open, parts, collection)
    }
  }

  /// Notifies an extension that all rows of a collection are removed, after the extension has removed what it kept of
  /// them.
  func removedAll(_ open: OpenExtension, _ parts: PartSet, _ collection: String?) throws {
    try open.activate(parts)
    try open.listener?.didRemoveAll(in: collection)
  }

  @inline(__always)
  private func deliver(_ facts: ChangeFacts, to listeners: [HookPlan.Listener]) throws {
    var change = RowChange(facts, in: self)
    let kind = facts.event.kind
    for listener in listeners where listener.events.contains(kind) {
      change.canReadOld = listener.needs.contains(.oldRows)
      if let ready = hooks.slots[listener.slot].ready {
        try ready.open.activate(.all)
        change.parts = .all
        try ready.listener.didChange(change)
        continue
      }
      guard let parts = parts(of: listener.slot, facts) else { continue }
      let open = try opened(listener.slot)
      try open.activate(parts)
      change.parts = parts
      try open.listener?.didChange(change)
    }
  }

  /// Delivers to one extension a change that counts for some of its parts, as the build of these parts does.
  func notify(_ facts: ChangeFacts, to open: OpenExtension, parts: PartSet, reviewed: PartSet = []) throws {
    let registered = open.registered
    guard registered.traits.configuration.events.contains(facts.event.kind) else { return }
    var change = RowChange(facts, in: self)
    change.parts = parts
    change.canReadOld = registered.traits.configuration.needs.contains(.oldRows)
    try deliverThenDrain {
      try open.activate(parts.union(reviewed))
      guard open.registered.traits.isImmediate else { return try open.listener?.didChange(change) ?? () }
      try banningRows { try open.listener?.didChange(change) }
    }
  }

  /// Counts a queued change that a hook has made. Throws `.doesNotSettle`, which dooms the transaction, if there are
  /// too many.
  private func noteQueued() throws {
    hooks.queuedCount += 1
    if hooks.queuedCount == HookQueue.queuedNoted {
      DatabaseLog.manyHookChanges(path: database.path, label: label, count: HookQueue.queuedNoted)
    }
    guard hooks.queuedCount > hooks.queuedMaximum else { return }
    let error = DatabaseError(
      .doesNotSettle, "hooks have made \(hooks.queuedMaximum) changes, each of which other hooks receive")
    doom(error)
    throw error
  }

  // MARK: - Dependents

  /// Notifies the extensions that depend on `changed` of a change of it.
  func notifyDependents(of changed: RegisteredExtension, _ change: any Sendable) throws {
    // A shadow is not in force yet, so no extension depends on it.
    if registered.isShadow(changed) { return }
    hooks.notificationCount &+= 1
    var later: [OpenExtension] = []
    for (slot, other) in registered.ordered.enumerated() where other.traits.dependencies.contains(changed.name) {
      let reach = hooks.slots[slot].reach ?? BuildReach(other.record)
      guard reach.isWhole || hooks.slots[slot].isWhole else { continue }
      let open = try opened(slot)
      if other.traits.isImmediate {
        try dooming { try banningRows { try deliver(change, of: changed.name, to: open) } }
      } else {
        later.append(open)
      }
    }
    if later.isEmpty { return }
    for open in later { hooks.events.append(.dependency(open, name: changed.name, change)) }
    if hooks.isRunning { return }
    try deliverThenDrain {}
  }

  /// Notifies one dependent extension, and returns when it has received the notification. Must not be called while
  /// hooks run.
  func notify(_ slot: Int, that name: String, _ change: any Sendable) throws {
    hooks.notificationCount &+= 1
    let open = try opened(slot)
    if open.registered.traits.isImmediate {
      try dooming { try banningRows { try deliver(change, of: name, to: open) } }
    } else {
      try deliverThenDrain { try deliver(change, of: name, to: open) }
    }
  }

  /// Whether an extension covers all rows in this transaction.
  func isWhole(_ slot: Int) -> Bool {
    hooks.slots[slot].isWhole || (hooks.slots[slot].reach ?? BuildReach(registered.ordered[slot].record)).isWhole
  }

  private func deliver(_ change: any Sendable, of name: String, to open: OpenExtension) throws {
    try open.activate(open.activeParts)
    try open.listener?.dependencyDidChange(name, change)
  }

  // MARK: - At the end

  /// Lets every extension write its pending changes, in rounds, until a round changes nothing. Throws `.doesNotSettle`
  /// after `flushRoundsMaximum` rounds.
  func flushExtensions() throws {
    if opened.isEmpty { return }
    hooks.isFlushing = true
    defer { hooks.isFlushing = false }
    for _ in 0..<Self.flushRoundsMaximum {
      let before = flushState
      // Extensions flush in the order in which they receive changes; those that are opened meanwhile flush in the next
      // round.
      for registered in registered.ordered {
        guard let open = opened.first(where: { $0.registered === registered }) else { continue }
        try dooming { try open.flush() }
      }
      if flushState == before { return }
    }
    let error = DatabaseError(
      .doesNotSettle,
      "after \(Self.flushRoundsMaximum) rounds extensions still change rows: "
        + opened.map(\.name).sorted().joined(separator: ", "))
    doom(error)
    throw error
  }

  /// The state that differs after a round of flushes if the round has changed a row, opened an extension, or notified
  /// one.
  private var flushState: [UInt64] { [changes.changeCount, UInt64(opened.count), hooks.notificationCount] }

  static let flushRoundsMaximum = 64
}
