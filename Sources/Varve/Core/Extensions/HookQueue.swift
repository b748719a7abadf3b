/// What extensions are still to hear of: changes that were made while they heard of another.
struct HookQueue {
  enum Event {
    case row(RowChange, Row)
    case removed(CollectionInfo, [RemovedRow])
    case removedAll
  }

  /// What has to be told, the oldest first.
  var events: [Event] = []
  /// Whether somebody tells already.
  var isRunning = false
  /// Whether a `will` hook runs.
  var isAsking = false

  /// How many changes hooks have made so far that other hooks were notified of later.
  var queuedCount = 0

  /// Hooks that write to each other without end meet this bound.
  var queuedMaximum = 1_000_000
  /// From here on it looks as if they do: the log has an event.
  static let queuedNoted = 100_000

  /// Forgets the newest, so that so many are left.
  mutating func truncate(to count: Int) {
    if events.count > count { events.removeSubrange(count...) }
  }
}

extension WriteTransaction {
  // MARK: - Before

  func willChange(
    _ change: RowChange, _ key: [UInt8], _ info: CollectionInfo, _ object: Any?, _ metadata: EncodedMetadata?,
    _ row: [UInt8]
  ) throws {
    if registered.isEmpty { return }
    try requireNoQuestion()
    let hearing = try hearing(key, info)
    if hearing.isEmpty { return }
    let row = try hookRow(key, row, info, object, metadata)
    try asking {
      for hearing in hearing {
        switch change {
        case .inserted: try hearing.willInsert(row)
        case .updated: try hearing.willUpdate(row)
        case .replacedObject: try hearing.willReplaceObject(row)
        case .replacedMetadata: try hearing.willReplaceMetadata(row)
        case .touchedObject, .touchedMetadata, .touchedRow, .removed: break
        }
      }
    }
  }

  /// Runs `will` hooks, which may not write: what is about to be written was made for the rows as they are.
  func asking(_ body: () throws -> Void) rethrows {
    hooks.isAsking = true
    defer { hooks.isAsking = false }
    try body()
  }

  /// Throws where a `will` hook runs. At the beginning of everything that writes.
  func requireNoQuestion() throws {
    guard hooks.isAsking else { return }
    throw DatabaseError(
      .invalidArgument,
      "a hook that is called before a change writes; it may throw, and the hook that is called after the change may write"
    )
  }

  func willRemove(_ present: [(key: [UInt8], header: RowHeader)], _ info: CollectionInfo) throws {
    try requireNoQuestion()
    for registered in registered.hearing(info.name) {
      let heard = try present.filter { isMaintained($0.key, info, by: registered) }
        .compactMap { try row($0.key, info) }
      if heard.isEmpty { continue }
      let hearing = try open(registered)
      try asking { if heard.count == 1 { try hearing.willRemove(heard[0]) } else { try hearing.willRemove(heard) } }
    }
  }

  // MARK: - Behind

  func didChange(
    _ change: RowChange, _ key: [UInt8], _ info: CollectionInfo, _ object: Any?, _ metadata: EncodedMetadata?,
    _ row: [UInt8]
  ) throws {
    if registered.isEmpty { return }
    try tell(.row(change, try hookRow(key, row, info, object, metadata)))
  }

  func didRemove(_ present: [(key: [UInt8], header: RowHeader)], _ info: CollectionInfo) throws {
    if registered.isEmpty { return }
    let rows = present.map { RemovedRow(key: info.key(of: $0.key), id: $0.header.id) }
    try tell(.removed(info, rows))
  }

  private func hookRow(
    _ key: [UInt8], _ row: [UInt8], _ info: CollectionInfo, _ object: Any?, _ metadata: EncodedMetadata?
  ) throws -> Row {
    let stored = try stored(key, row, info)
    stored.object = object
    // Also for a hook that is asked before: the transaction has the old one still.
    stored.metadata = metadata?.value
    stored.metadataBytes = metadata?.bytes
    return Row(stored, in: self)
  }

  /// Tells all extensions, unless somebody above on this stack does: then it is told behind what that one tells.
  func tell(_ event: HookQueue.Event) throws {
    hooks.events.append(event)
    guard !hooks.isRunning else { return try noteQueued() }
    hooks.isRunning = true
    defer { hooks.isRunning = false }
    var index = 0
    do {
      while index < hooks.events.count {
        let event = hooks.events[index]
        index += 1
        try deliver(event)
        // Those that were delivered are kept no longer: there may be many. No savepoint is open between two.
        if index == 1_024 {
          hooks.events.removeFirst(index)
          index = 0
        }
      }
      hooks.events.removeAll(keepingCapacity: true)
    } catch {
      hooks.events.removeAll()
      doom(error)
      throw error
    }
  }

  /// Counts a change that a hook makes. Throws `.doesNotSettle`, which dooms the transaction.
  private func noteQueued() throws {
    hooks.queuedCount += 1
    if hooks.queuedCount == HookQueue.queuedNoted {
      DatabaseLog.manyHookChanges(path: database.path, label: label, count: HookQueue.queuedNoted)
    }
    guard hooks.queuedCount > hooks.queuedMaximum else { return }
    let error = DatabaseError(
      .doesNotSettle, "hooks have made \(hooks.queuedMaximum) changes, each of which other hooks are notified of")
    doom(error)
    throw error
  }

  private func deliver(_ event: HookQueue.Event) throws {
    switch event {
    case .row(let change, let row):
      for hearing in try hearing(row.storageKey, row.info) { try hear(change, row, hearing) }
    case .removed(let info, let rows):
      for registered in registered.hearing(info.name) {
        let heard = rows.filter { isMaintained(info.prefix + $0.key.bytes, info, by: registered) }
        if heard.isEmpty { continue }
        let hearing = try open(registered)
        if heard.count == 1 {
          try hearing.didRemove(heard[0].key, id: heard[0].id)
        } else {
          try hearing.didRemove(heard)
        }
      }
    case .removedAll:
      for registered in registered.ordered { try open(registered).didRemoveAll() }
    }
  }

  private func hear(_ change: RowChange, _ row: Row, _ hearing: any ExtensionTransaction) throws {
    switch change {
    case .inserted: try hearing.didInsert(row)
    case .updated: try hearing.didUpdate(row)
    case .replacedObject: try hearing.didReplaceObject(row)
    case .replacedMetadata: try hearing.didReplaceMetadata(row)
    case .touchedObject: try hearing.didTouchObject(row)
    case .touchedMetadata: try hearing.didTouchMetadata(row)
    case .touchedRow: try hearing.didTouchRow(row)
    case .removed: try hearing.didRemove(row.key, id: row.id)
    }
  }

  private func hearing(_ key: [UInt8], _ info: CollectionInfo) throws -> [any ExtensionTransaction] {
    try registered.hearing(info.name).filter { isMaintained(key, info, by: $0) }.map { try open($0) }
  }

  /// Whether an extension keeps up with a row: while it is built, only with those that it was given.
  private func isMaintained(_ key: [UInt8], _ info: CollectionInfo, by registered: RegisteredExtension) -> Bool {
    if registered.name == building?.name { return !ByteOrder.precedes(building?.watermark ?? [], info.walkKey(key)) }
    switch registered.record.state {
    case .ready: return true
    case .stale: return false
    case .building(let watermark): return !ByteOrder.precedes(watermark, info.walkKey(key))
    }
  }

  // MARK: - At the end

  /// Lets every extension write what it has pending, again and again until none changes rows any more.
  func flushExtensions() throws {
    var changed: [String] = []
    for _ in 0..<Self.flushRoundsMaximum {
      changed = []
      for registered in registered.ordered {
        guard let flushing = extensions[registered.name] else { continue }
        do {
          if try flushing.flushPendingChanges() { changed.append(registered.name) }
        } catch {
          doom(error)
          throw error
        }
      }
      if changed.isEmpty { return }
    }
    let error = DatabaseError(
      .doesNotSettle,
      "after \(Self.flushRoundsMaximum) rounds these extensions still change rows: \(changed.joined(separator: ", "))")
    doom(error)
    throw error
  }

  static let flushRoundsMaximum = 64

  func extensionStates() -> [String: Any] { extensions.mapValues { $0.savedState() } }

  /// Puts back what was pending. An extension that was first asked for behind the savepoint begins anew.
  func restore(_ states: [String: Any]) {
    for (name, hearing) in extensions {
      if let state = states[name] {
        hearing.restoreState(state)
      } else {
        extensions[name] = nil
        hearing.didRollBack()
      }
    }
  }
}
