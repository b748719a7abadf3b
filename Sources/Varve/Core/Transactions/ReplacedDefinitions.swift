/// The extensions as seen by a transaction that has replaced some of them.
final class ReplacedDefinitions {
  let list: ExtensionList
  /// The extensions that the transaction has put in force and that have all rows.
  private(set) var ready: [RegisteredExtension]
  /// The extensions that begin again.
  private(set) var emptied: [RegisteredExtension]
  /// The names of the extensions whose content has changed.
  private(set) var names: Set<String>

  /// Creates the view that follows `before`.
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
