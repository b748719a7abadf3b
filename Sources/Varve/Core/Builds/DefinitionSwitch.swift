internal import Synchronization

/// The commit that puts another definition in force.
struct DefinitionSwitch {
  private let transaction: WriteTransaction
  private let registered: RegisteredExtension
  private let record: ExtensionRecord
  /// Whether it keeps what the old one kept.
  private let keepsContent: Bool

  /// `record` is what the catalog is to say of it.
  init(
    _ transaction: WriteTransaction, to registered: RegisteredExtension, _ record: ExtensionRecord,
    keepsContent: Bool = false
  ) {
    self.transaction = transaction
    self.registered = registered
    self.record = record
    self.keepsContent = keepsContent
  }

  private var name: String { registered.name }
  private var core: DatabaseCore { transaction.database }

  /// `build` gives it what it is to keep, in this transaction.
  func run(_ build: (RegisteredExtension) throws -> Void = { _ in }) throws {
    guard let old = transaction.registered[name] else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
    }
    var members = transaction.registered.members
    members.replace(old, by: registered)
    var replaced = ReplacedDefinitions(ExtensionList(members), transaction.replaced)
    if record.state == .ready { replaced = replaced.with(ready: registered) }
    if !keepsContent { replaced = replaced.with(name: name) }
    transaction.install(replaced)
    try build(registered)
    if record.number > 0 { try registered.save(record, transaction, as: .alone) }
    transaction.onApplied { [core, record, registered] version in
      if record.number == 0 { registered.set(record, readySince: version, at: version) }
      registered.adoptSettings(of: old)
      core.extensions.replace(old, by: registered, at: version)
      registered.shareReplaced(core)
    }
    if !keepsContent { try renewDependents() }
  }

  // MARK: - Dependents

  /// Notifies what depends on it. What does not say that it has dealt with that is built again; and so is what depends on
  /// such a one.
  private func renewDependents() throws {
    var changed: Set<String> = [name]
    var rebuilt: Set<String> = record.state == .ready ? [] : [name]
    for other in transaction.registered.ordered where !changed.isDisjoint(with: other.traits.dependencies) {
      guard let slot = transaction.registered.ordered.firstIndex(where: { $0 === other }) else { continue }
      let isShadow = transaction.registered.isShadow(other)
      if !isShadow { changed.insert(other.name) }
      var isKept = !isShadow && rebuilt.isDisjoint(with: other.traits.dependencies) && transaction.isWhole(slot)
      if isKept, other.traits.dependencies.contains(name) {
        let replacement = ReplacedDependency()
        try transaction.notify(slot, that: name, replacement)
        isKept = replacement.isKept
      }
      if !isKept, !isShadow { rebuilt.insert(other.name) }
      try ExtensionRenewal(transaction).run(other, isShadow: isShadow, isKept: isKept)
    }
  }
}

/// What `dependencyDidChange` receives where another definition was put in force for a dependency
/// (`WriteTransaction.replaceDefinition`): what that keeps is another as a whole.
///
/// An extension that has brought what it keeps itself in line with that calls `keep`. Without that it is built again, and
/// throws `.notReady` until it is.
public final class ReplacedDependency: Sendable {
  private let kept = Atomic<Bool>(false)

  init() {}

  /// What the extension keeps is right.
  public func keep() { kept.store(true, ordering: .sequentiallyConsistent) }

  var isKept: Bool { kept.load(ordering: .sequentiallyConsistent) }
}

/// The extensions as a transaction sees them that has replaced some.
final class ReplacedDefinitions {
  let list: ExtensionList
  /// Those that are in force, and have all rows.
  private(set) var ready: [RegisteredExtension]
  /// Those that begin again.
  private(set) var emptied: [RegisteredExtension]
  /// What keeps another content.
  private(set) var names: Set<String>

  /// After `before`.
  init(_ list: ExtensionList, _ before: ReplacedDefinitions?) {
    self.list = list
    ready = before?.ready ?? []
    emptied = before?.emptied ?? []
    names = before?.names ?? []
  }

  private func changed(_ body: (ReplacedDefinitions) -> Void) -> ReplacedDefinitions {
    let copy = ReplacedDefinitions(list, self)
    body(copy)
    return copy
  }

  func with(ready registered: RegisteredExtension) -> ReplacedDefinitions { changed { $0.ready.append(registered) } }
  func with(name: String) -> ReplacedDefinitions { changed { $0.names.insert(name) } }
  func with(emptied registered: RegisteredExtension) -> ReplacedDefinitions {
    changed { copy in
      copy.emptied.append(registered)
      copy.ready.removeAll { $0 === registered }
      copy.names.insert(registered.name)
    }
  }
}
