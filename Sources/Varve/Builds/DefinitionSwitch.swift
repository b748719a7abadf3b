internal import Synchronization

/// The commit that puts another definition in force.
struct DefinitionSwitch {
  private let transaction: WriteTransaction
  private let registered: RegisteredExtension
  private let record: ExtensionRecord
  /// Whether the new definition keeps the content of the old one.
  private let keepsContent: Bool

  /// Creates a switch to a definition. `record` is its record in the catalog after the switch.
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

  /// Puts the definition in force. `build` fills it with content in this transaction.
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

  /// Notifies the extensions that depend on this one. An extension that does not confirm that it has dealt with the
  /// replacement is built again, and so is every extension that depends on such a one.
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

/// The change that `dependencyDidChange` receives if another definition was put in force for a dependency
/// (`WriteTransaction.replaceDefinition`): all of the dependency's content may have changed.
///
/// An extension that has brought its own content in line with the new definition calls `keep`. Otherwise it is built
/// again, and throws `.notReady` until it is.
public final class ReplacedDependency: Sendable {
  private let kept = Atomic<Bool>(false)

  init() {}

  /// Confirms that the extension's content is up to date.
  public func keep() { kept.store(true, ordering: .sequentiallyConsistent) }

  var isKept: Bool { kept.load(ordering: .sequentiallyConsistent) }
}
