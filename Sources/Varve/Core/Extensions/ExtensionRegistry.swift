internal import Synchronization

/// The extensions of an open database, in the order in which they hear of changes. Changed by writers only, so
/// that a transaction can keep the list that it began with.
final class ExtensionRegistry: Sendable {
  private let state = Mutex(ExtensionList())
  private let changeCount = Atomic<UInt64>(0)
  private let unrecorded = Atomic<UInt64>(0)

  var list: ExtensionList { state.withLock { $0 } }

  /// Another number behind each change of the list, and of what one of them says of itself: a writer that did not hold
  /// the writer all the time finds out whether it has told those whom it had to.
  var edition: UInt64 { changeCount.load(ordering: .sequentiallyConsistent) }

  /// Changes the list. By whoever holds the writer, or of a database that nobody writes to.
  func change(_ body: (inout [RegisteredExtension]) throws -> Void) rethrows {
    try state.withLock { list in
      var extensions = list.ordered
      try body(&extensions)
      list = ExtensionList(extensions)
    }
    noteChange()
  }

  /// The order of one that the catalog has no record of: after those that it knows, by registration.
  var nextOrder: UInt64 { UInt64(UInt32.max) + unrecorded.add(1, ordering: .relaxed).newValue }

  func noteChange() { changeCount.add(1, ordering: .sequentiallyConsistent) }
}

/// Extensions in order.
struct ExtensionList: Sendable {
  let ordered: [RegisteredExtension]
  private let plans = HookPlans()
  /// Those whose transactions share something.
  let sharing: [RegisteredExtension]

  /// Dependencies first, then by first registration.
  init(_ extensions: [RegisteredExtension] = []) {
    var ordered: [RegisteredExtension] = []
    var rest = extensions.sorted { $0.order < $1.order }
    while let index = rest.firstIndex(where: { next in
      next.traits.predecessors.allSatisfy { name in ordered.contains { $0.name == name } }
    }) {
      ordered.append(rest.remove(at: index))
    }
    // What depends on itself was refused at registration; nothing is left out.
    self.ordered = ordered + rest
    sharing = self.ordered.filter { $0.shared != nil }
  }

  var isEmpty: Bool { ordered.isEmpty }

  subscript(name: String) -> RegisteredExtension? { ordered.first { $0.name == name } }

  /// An extension and those that depend on it, it first.
  func dependents(of name: String) -> [String] {
    var names = [name]
    for other in ordered where other.traits.dependencies.contains(where: names.contains) {
      names.append(other.name)
    }
    return names
  }

  /// Which of them receive the changes of a collection.
  func plan(_ info: CollectionInfo) -> HookPlan { plans.plan(info, ordered) }

  /// Whether an extension that may look into rows receives changes of a collection.
  func isRead(_ collection: String) -> Bool {
    ordered.contains { !RowIDMap.isReserved($0.name) && $0.traits.scope.contains(collection) }
  }

  /// Whether an extension asks for rows by number.
  var asksRowsByID: Bool { ordered.contains { $0.traits.asksRowsByID } }
}

extension ReadTransaction {
  /// An extension's part in this transaction.
  ///
  /// Throws `.notReady` while it is being built, and in a transaction that reads an instant before it was;
  /// `.unknownExtension` where it is not registered any more.
  public final subscript<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>
  ) -> Definition.Transaction {
    get throws {
      try check()
      guard let registered = database.extensions.list[handle.name] else {
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
    // `open` looks whether it is there at this snapshot.
    if database.backend.isReadOnly { return }
    if let since = registered.readySince, isWritable || snapshot.version >= since { return }
    throw registered.notReadyError
  }

  /// The extension in this transaction, made where the transaction has not asked for it yet.
  final func open(_ registered: RegisteredExtension) throws -> OpenExtension {
    if let found = opened.first(where: { $0.registered === registered }) { return found }
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
    let progress = progress
    return DatabaseError(
      .notReady, "extension \"\(name)\" is being built: \(progress.rowsDone) of about \(progress.rowsTotal) rows")
  }
}
