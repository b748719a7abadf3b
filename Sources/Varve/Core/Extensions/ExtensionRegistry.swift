internal import FutexLocks
internal import Synchronization

/// The extensions of an open database, in the order in which they receive changes. Only writers change it, so that a
/// transaction can keep the list with which it began.
final class ExtensionRegistry: Sendable {
  private struct State {
    var list = ExtensionList()
    /// Replaced definitions, kept for readers of snapshots before their replacement.
    var retired: [Retired] = []
  }

  private struct Retired {
    let registered: RegisteredExtension
    /// The commit since which the replacement is in force.
    let until: CommitVersion
  }

  private let state = FutexLock(State())
  private let leftovers = Atomic<Bool>(false)
  private let changeCount = Atomic<UInt64>(0)
  private let unrecorded = Atomic<UInt64>(0)
  /// The maximum number of rows that are passed to a new definition within the transaction that puts it in force. Tests
  /// reduce it.
  let rowsInTransaction = Atomic<Int>(10_000)
  /// The number of rows in its scope from which on an extension is built by tables. Tests reduce it.
  let rowsForIngestion = Atomic<Int>(50_000)
  /// The number of bytes that a build by tables collects before it writes a run. Tests reduce it.
  let spillSize = Atomic<Int>(32 << 20)

  var list: ExtensionList { state.withLock { $0.list } }

  /// Returns the definition of a name that is, or was, in force for readers of a commit.
  func find(_ name: String, at version: CommitVersion) -> RegisteredExtension? {
    state.withLock { state in
      if state.retired.isEmpty { return state.list[name] }
      let retired = state.retired.filter { $0.registered.name == name && version < $0.until }
      return retired.min { $0.until < $1.until }?.registered ?? state.list[name]
    }
  }

  /// A number that changes with each change of the list, or of the record of one of its extensions. A transaction that
  /// did not hold the writer throughout detects by it that it may not have notified the right extensions.
  var edition: UInt64 { changeCount.load(ordering: .sequentiallyConsistent) }

  /// Changes the list. The caller holds the writer, or the database is one that this process does not write.
  func change(_ body: (inout ExtensionList.Members) throws -> Void) rethrows {
    try state.withLock { state in
      var members = state.list.members
      try body(&members)
      state.list = ExtensionList(members)
      state.retired.removeAll { state.list[$0.registered.name] == nil }
    }
    noteChange()
  }

  /// Replaces a definition by another one that is in force from a commit on.
  func replace(_ old: RegisteredExtension, by new: RegisteredExtension, at version: CommitVersion) {
    // Both changes are made at once: in between, a reader of an earlier commit would find the new definition, which is
    // not ready for it.
    state.withLock { state in
      var members = state.list.members
      members.replace(old, by: new)
      state.list = ExtensionList(members)
      state.retired.append(Retired(registered: old, until: version))
    }
    noteChange()
    noteLeftovers()
  }

  // MARK: - Families that are left over

  /// Notes that a family may no longer be needed by any definition.
  func noteLeftovers() { leftovers.store(true, ordering: .sequentiallyConsistent) }

  var hasLeftovers: Bool { leftovers.load(ordering: .relaxed) }

  /// Returns whether a sweep has work: a replaced definition that no reader needs any more, where the oldest reader
  /// reads the commit `oldest`, or, if no replaced definition is kept, families without an owner.
  func isSweepDue(_ oldest: CommitVersion?) -> Bool {
    state.withLock { state in
      state.retired.isEmpty || state.retired.contains { retired in oldest.map { retired.until <= $0 } ?? false }
    }
  }

  /// Forgets the replaced definitions that no reader needs. Returns the generations of families that are needed, by the
  /// numbers of the extensions. Must be called with the writer held.
  func sweep(_ oldest: CommitVersion?) -> [UInt32: Set<UInt32>] {
    state.withLock { state in
      state.retired.removeAll { retired in oldest.map { retired.until <= $0 } ?? false }
      leftovers.store(!state.retired.isEmpty, ordering: .sequentiallyConsistent)
      var needed: [UInt32: Set<UInt32>] = [:]
      for registered in state.list.ordered + state.retired.map(\.registered) where registered.number > 0 {
        needed[registered.number, default: []].insert(registered.record.generation)
      }
      return needed
    }
  }

  /// The order of an extension without a record in the catalog: after all that have one, by registration.
  var nextOrder: UInt64 { UInt64(UInt32.max) + unrecorded.add(1, ordering: .relaxed).newValue }

  func noteChange() { changeCount.add(1, ordering: .sequentiallyConsistent) }
}

/// A list of extensions in the order in which they receive changes.
struct ExtensionList: Sendable {
  /// The extensions in force, and those that are being built to replace one of them.
  struct Members: Sendable {
    var inForce: [RegisteredExtension] = []
    var shadows: [RegisteredExtension] = []

    mutating func replace(_ old: RegisteredExtension, by new: RegisteredExtension) {
      shadows.removeAll { $0.name == old.name }
      for index in inForce.indices where inForce[index] === old { inForce[index] = new }
    }
  }

  let members: Members
  /// All extensions.
  let ordered: [RegisteredExtension]
  /// The extensions in force.
  let inForce: [RegisteredExtension]
  private let plans = HookPlans()
  /// The extensions whose transactions share state.
  let sharing: [RegisteredExtension]

  /// Creates a list in which dependencies come first; otherwise the order is that of first registration.
  init(_ members: Members = Members()) {
    self.members = members
    var ordered: [RegisteredExtension] = []
    // A shadow comes after the extension that it is to replace.
    var rest = (members.inForce + members.shadows).sorted { $0.order < $1.order }
    while let index = rest.firstIndex(where: { next in
      next.traits.predecessors.allSatisfy { name in ordered.contains { $0.name == name } }
    }) {
      ordered.append(rest.remove(at: index))
    }
    // Circular dependencies are refused at registration. If any extension is left all the same, it is appended.
    self.ordered = ordered + rest
    inForce = self.ordered.filter { registered in !members.shadows.contains { $0 === registered } }
    sharing = inForce.filter { $0.shared != nil }
  }

  var isEmpty: Bool { ordered.isEmpty }

  /// The extension in force with a name.
  subscript(name: String) -> RegisteredExtension? { inForce.first { $0.name == name } }

  /// Returns the extension that is being built to replace the one in force.
  func shadow(_ name: String) -> RegisteredExtension? { members.shadows.first { $0.name == name } }

  func isShadow(_ registered: RegisteredExtension) -> Bool { members.shadows.contains { $0 === registered } }

  func contains(_ registered: RegisteredExtension) -> Bool { ordered.contains { $0 === registered } }

  /// Returns the names of an extension and of those that depend on it, its own first.
  func dependents(of name: String) -> [String] {
    var names = [name]
    for other in inForce where other.traits.dependencies.contains(where: names.contains) {
      names.append(other.name)
    }
    return names
  }

  /// Returns the plan of the extensions that receive the changes of a collection.
  func plan(_ info: CollectionInfo) -> HookPlan { plans.plan(info, ordered) }

  /// Returns whether an extension other than the database's own is notified of changes of a collection.
  ///
  /// An extension without events, as that of tasks, is notified of none.
  func notifiesExternally(of collection: String) -> Bool {
    ordered.contains { registered in
      let traits = registered.traits
      return !RowIDMap.isMap(registered.name) && !traits.configuration.events.isEmpty
        && traits.scope.contains(collection)
    }
  }

  /// The names of the maps from numbers to rows that the extensions use.
  var rowIDMaps: Set<String> { Set(ordered.compactMap(\.traits.rowIDMap)) }
}

extension ReadTransaction {
  /// The transaction object of an extension in this transaction.
  ///
  /// Throws `.notReady` while the extension is being built, and in a transaction whose snapshot is older than the end
  /// of its build; `.unknownExtension` if it is no longer registered.
  public final subscript<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>
  ) -> Definition.Transaction {
    get throws {
      try check()
      guard let registered = try find(handle.name) else {
        throw DatabaseError(.unknownExtension, "no extension is registered as \"\(handle.name)\"")
      }
      try requireReady(registered)
      guard let found = try open(registered).listener as? Definition.Transaction else {
        throw DatabaseError(
          .definitionDiffers, "the extension that is registered as \"\(handle.name)\" is of another type")
      }
      return found
    }
  }

  private func requireReady(_ registered: RegisteredExtension) throws {
    if database.backend.isReadOnly {
      guard let error = try registered.content(at: snapshot).notWhole else { return }
      sawUnready = true
      throw error
    }
    if isReady(registered) { return }
    sawUnready = true
    throw registered.notReadyError
  }

  /// Returns the extension in this transaction, and opens it at its first use.
  final func open(_ registered: RegisteredExtension) throws -> OpenExtension {
    if let found = opened.first(where: { $0.registered === registered }) { return found }
    if let spill, spill.registered !== registered { throw spill.refuse("uses extension \"\(registered.name)\"") }
    let content = database.backend.isReadOnly ? try registered.content(at: snapshot) : nil
    if content != nil, let shared = registered.shared { try shared.follow(SharedView(registered, self, content)) }
    let open = OpenExtension(registered, self, content)
    // An extension whose `make` fails may have handed out parts already, which have to end with the transaction.
    everOpened.append(open)
    _ = try open.make()
    opened.append(open)
    return open
  }
}

extension RegisteredExtension {
  /// The error for a use of the extension while it is not ready.
  var notReadyError: DatabaseError {
    if case .failed(let message) = record.state {
      return DatabaseError(.notReady, "the build of extension \"\(name)\" has failed: \(message)")
    }
    return DatabaseError(.notReady, "extension \"\(name)\" \(buildText)")
  }

  /// The progress of the extension's build, or the error that has ended it, worded as the end of a message.
  var buildText: String {
    if !build.isRunning, let error = build.error { return "is not built, because its build was ended: \(error)" }
    let progress = progress
    return "is being built: \(progress.rowsDone) of about \(max(progress.rowsDone, progress.rowsTotal)) rows"
  }
}
