internal import FutexLocks
internal import Synchronization

/// The extensions of an open database, in the order in which they hear of changes. Changed by writers only, so
/// that a transaction can keep the list that it began with.
final class ExtensionRegistry: Sendable {
  private struct State {
    var list = ExtensionList()
    /// Definitions that were replaced, for readers of snapshots before that.
    var retired: [Retired] = []
  }

  private struct Retired {
    let registered: RegisteredExtension
    /// The commit since which another one is in force.
    let until: CommitVersion
  }

  private let state = FutexLock(State())
  private let leftovers = Atomic<Bool>(false)
  private let changeCount = Atomic<UInt64>(0)
  private let unrecorded = Atomic<UInt64>(0)
  /// The most rows that another definition is given in the transaction that puts it in force. Tests make it smaller.
  let rowsInTransaction = Atomic<Int>(10_000)
  /// From so many rows of its scope on an extension is built by tables. Tests make it smaller.
  let rowsForIngestion = Atomic<Int>(50_000)
  /// How many bytes such a build collects before it writes a run. Tests make it smaller.
  let spillSize = Atomic<Int>(32 << 20)

  var list: ExtensionList { state.withLock { $0.list } }

  /// What is, or was, in force for readers of a commit.
  func find(_ name: String, at version: CommitVersion) -> RegisteredExtension? {
    state.withLock { state in
      if state.retired.isEmpty { return state.list[name] }
      let retired = state.retired.filter { $0.registered.name == name && version < $0.until }
      return retired.min { $0.until < $1.until }?.registered ?? state.list[name]
    }
  }

  /// Another number after each change of the list, and of what one of them says of itself: a writer that did not hold
  /// the writer all the time finds out whether it has notified those that it had to.
  var edition: UInt64 { changeCount.load(ordering: .sequentiallyConsistent) }

  /// Changes the list. By the caller that holds the writer, or of a database that no one writes to.
  func change(_ body: (inout ExtensionList.Members) throws -> Void) rethrows {
    try state.withLock { state in
      var members = state.list.members
      try body(&members)
      state.list = ExtensionList(members)
      state.retired.removeAll { state.list[$0.registered.name] == nil }
    }
    noteChange()
  }

  /// Another definition is in force from a commit on.
  func replace(_ old: RegisteredExtension, by new: RegisteredExtension, at version: CommitVersion) {
    // At once: in between, a reader of an earlier commit would find the new one, which is not ready for it.
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

  /// Some family may have lost what needs it.
  func noteLeftovers() { leftovers.store(true, ordering: .sequentiallyConsistent) }

  var hasLeftovers: Bool { leftovers.load(ordering: .relaxed) }

  /// Whether a definition was replaced that no reader needs any more, the oldest of which reads that commit; also where
  /// nothing but families without an owner is left.
  func isSweepDue(_ oldest: CommitVersion?) -> Bool {
    state.withLock { state in
      state.retired.isEmpty || state.retired.contains { retired in oldest.map { retired.until <= $0 } ?? false }
    }
  }

  /// Forgets the definitions that no reader needs. Returns the generations of families that are needed, by the numbers of
  /// the extensions. With the writer held.
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

  /// The order of one that the catalog has no record of: after those that it knows, by registration.
  var nextOrder: UInt64 { UInt64(UInt32.max) + unrecorded.add(1, ordering: .relaxed).newValue }

  func noteChange() { changeCount.add(1, ordering: .sequentiallyConsistent) }
}

/// Extensions in order.
struct ExtensionList: Sendable {
  /// Those in force, and those that are built to replace one of them.
  struct Members: Sendable {
    var inForce: [RegisteredExtension] = []
    var shadows: [RegisteredExtension] = []

    mutating func replace(_ old: RegisteredExtension, by new: RegisteredExtension) {
      shadows.removeAll { $0.name == old.name }
      for index in inForce.indices where inForce[index] === old { inForce[index] = new }
    }
  }

  let members: Members
  /// All of them.
  let ordered: [RegisteredExtension]
  /// Those in force.
  let inForce: [RegisteredExtension]
  private let plans = HookPlans()
  /// Those whose transactions share something.
  let sharing: [RegisteredExtension]

  /// Dependencies first, then by first registration.
  init(_ members: Members = Members()) {
    self.members = members
    var ordered: [RegisteredExtension] = []
    // What is to replace one comes after it.
    var rest = (members.inForce + members.shadows).sorted { $0.order < $1.order }
    while let index = rest.firstIndex(where: { next in
      next.traits.predecessors.allSatisfy { name in ordered.contains { $0.name == name } }
    }) {
      ordered.append(rest.remove(at: index))
    }
    // What depends on itself was refused at registration; nothing is left out.
    self.ordered = ordered + rest
    inForce = self.ordered.filter { registered in !members.shadows.contains { $0 === registered } }
    sharing = inForce.filter { $0.shared != nil }
  }

  var isEmpty: Bool { ordered.isEmpty }

  /// The one in force.
  subscript(name: String) -> RegisteredExtension? { inForce.first { $0.name == name } }

  /// What is built to replace the one in force.
  func shadow(_ name: String) -> RegisteredExtension? { members.shadows.first { $0.name == name } }

  func isShadow(_ registered: RegisteredExtension) -> Bool { members.shadows.contains { $0 === registered } }

  func contains(_ registered: RegisteredExtension) -> Bool { ordered.contains { $0 === registered } }

  /// An extension and those that depend on it, it first.
  func dependents(of name: String) -> [String] {
    var names = [name]
    for other in inForce where other.traits.dependencies.contains(where: names.contains) {
      names.append(other.name)
    }
    return names
  }

  /// Which of them receive the changes of a collection.
  func plan(_ info: CollectionInfo) -> HookPlan { plans.plan(info, ordered) }

  /// Whether an extension that may look into rows receives changes of a collection.
  func isRead(_ collection: String) -> Bool {
    ordered.contains { !RowIDMap.isMap($0.name) && $0.traits.scope.contains(collection) }
  }

  /// The maps from numbers to rows that extensions ask.
  var rowIDMaps: Set<String> { Set(ordered.compactMap(\.traits.rowIDMap)) }
}

extension ReadTransaction {
  /// An extension's part in this transaction.
  ///
  /// Throws `.notReady` while it is being built, and in a transaction that reads a snapshot before it was;
  /// `.unknownExtension` where it is not registered any more.
  public final subscript<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>
  ) -> Definition.Transaction {
    get throws {
      try check()
      guard let registered = try find(handle.name) else {
        throw DatabaseError(.unknownExtension, "no extension is registered as \"\(handle.name)\"")
      }
      try requireReady(registered)
      guard let found = try open(registered).hearer as? Definition.Transaction else {
        throw DatabaseError(
          .definitionDiffers, "the extension that is registered as \"\(handle.name)\" is of another type")
      }
      return found
    }
  }

  private func requireReady(_ registered: RegisteredExtension) throws {
    if database.backend.isReadOnly {
      guard let error = try registered.content(at: snapshot).notWhole else { return }
      metUnready = true
      throw error
    }
    if isReady(registered) { return }
    metUnready = true
    throw registered.notReadyError
  }

  /// The extension in this transaction, made where the transaction has not asked for it yet.
  final func open(_ registered: RegisteredExtension) throws -> OpenExtension {
    if let found = opened.first(where: { $0.registered === registered }) { return found }
    if let spill, spill.registered !== registered { throw spill.refuse("uses extension \"\(registered.name)\"") }
    let content = database.backend.isReadOnly ? try registered.content(at: snapshot) : nil
    if content != nil, let shared = registered.shared { try shared.follow(SharedView(registered, self, content)) }
    let open = OpenExtension(registered, self, content)
    // Also what fails here has handed out parts, which end with the transaction.
    everOpened.append(open)
    _ = try open.make()
    opened.append(open)
    return open
  }
}

extension RegisteredExtension {
  /// Why it can't be used now.
  var notReadyError: DatabaseError {
    if case .failed(let message) = record.state {
      return DatabaseError(.notReady, "the build of extension \"\(name)\" has failed: \(message)")
    }
    return DatabaseError(.notReady, "extension \"\(name)\" \(buildText)")
  }

  /// How far its build is, or what has ended it, as the end of a message.
  var buildText: String {
    if !build.isRunning, let error = build.error { return "is not built, because its build was ended: \(error)" }
    let progress = progress
    return "is being built: \(progress.rowsDone) of about \(max(progress.rowsDone, progress.rowsTotal)) rows"
  }
}
