/// An extension that keeps what can't be derived from rows, and that makes what is left of it consistent after damaged
/// blocks were given up.
///
/// Such an extension is not built again after a repair of the database. At its next registration its repair runs
/// instead, in steps, each in a write transaction of its own, before the registration ends.
@_spi(Extensions) public protocol DamageRepairing: DatabaseExtension {
  /// Makes the next step of a repair. Returns whether further steps follow.
  ///
  /// `progress` is what the last step has set, or `nil` at the first one: how far the repair is, and what it has found.
  /// A crash between two steps begins the repair again, so a step must not undo anything if it is repeated.
  func repair(_ progress: inout (any Sendable)?, in transaction: Transaction) throws -> Bool
  /// Returns the numbers that the log has of a repair that has ended. `progress` is what its last step has set.
  func findings(of progress: (any Sendable)?) -> [String: Int]
}

/// Runs the repair of an extension that is `DamageRepairing`.
///
/// # Steps
/// 1. The commit of the registration finds that the extension is stale since an unknown commit, which a repair of the
///    database has written. It marks the extension as ready, and writes a mark beside its settings.
/// 2. The repair runs.
/// 3. The last commit removes the mark, and moves the shared state to what the extension then has.
///
/// A crash before the end leaves the mark, and the next registration repairs the extension again.
struct ExtensionRepair {
  let core: DatabaseCore
  let registered: RegisteredExtension

  private var catalog: StorageFamily { core.catalog.families.catalog }
  private var mark: [UInt8] { registered.settingKey("varve.damage", number: registered.number) }

  /// Returns whether the record of an extension says that it has to be repaired.
  static func isNeeded(_ definition: any DatabaseExtension, _ stored: ExtensionRecord?) -> Bool {
    guard definition is any DamageRepairing, case .stale(nil)? = stored?.state else { return false }
    return true
  }

  /// Writes the mark in the transaction of the registration.
  func begin(_ transaction: WriteTransaction) throws {
    try transaction.pending.put(mark, ExtensionSetting.bool(true).bytes, in: catalog)
  }

  /// Repairs the extension if there is a mark.
  ///
  /// If a block can't be read, the mark stays, and the extension can be used without the repair: otherwise the database
  /// could not be opened at all.
  func run<Definition: DamageRepairing>(_ definition: Definition) throws {
    guard registered.number > 0, registered.record.state == .ready,
      try core.backend.snapshot().contains(mark, in: catalog)
    else { return }
    do {
      let progress = try repaired(definition)
      try end()
      DatabaseLog.repairedExtension(path: core.path, name: registered.name, definition.findings(of: progress))
    } catch let error as DatabaseError where error.code == .corruption {
      DatabaseLog.unrepairedExtension(error, path: core.path, name: registered.name)
    }
  }

  private func repaired<Definition: DamageRepairing>(_ definition: Definition) throws -> (any Sendable)? {
    let handle = ExtensionHandle(name: registered.name, definition: definition)
    let terms = WriteTerms(label: "repair \(registered.name)", waitsForWriter: true)
    var progress: (any Sendable)?
    while true {
      if core.isClosing { throw WriterQueue.closedError }
      // A step that is rolled back leaves the progress as it was.
      var next = progress
      let continues = try core.write(terms) { transaction in
        try definition.repair(&next, in: transaction[handle])
      }
      progress = next
      if !continues { return progress }
    }
  }

  private func end() throws {
    let failure = SharedStateFailure.Box()
    try core.write(WriteTerms(label: "repair \(registered.name)", waitsForWriter: true)) { transaction in
      try transaction.pending.delete(mark, in: catalog)
      transaction.onApplied { [core, registered] _ in
        do { try registered.share(core) } catch { failure.error = error }
      }
    }
    if let error = failure.error { throw error }
  }
}
