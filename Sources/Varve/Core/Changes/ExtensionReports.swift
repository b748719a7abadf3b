/// The changes of an extension in one commit, for observers of the extension.
public enum ExtensionChanges<Changes: Sendable>: Sendable {
  /// The commit did not change the extension.
  case none
  /// The changes that the extension has reported.
  case exact(Changes)
  /// The changes are not known: what the extension keeps has to be read again.
  case reload
}

/// The changes that extensions have reported for one commit.
struct ExtensionReports: Sendable {
  /// The changes, by the name of the extension.
  private(set) var byName: [String: any Sendable] = [:]
  /// The memory of the changes whose extensions report it.
  private var knownByteCount = 0
  /// The number of changes whose extensions do not report their memory.
  private var unknownCount = 0
  /// Whether the extensions that report changes were asked for them.
  var isComplete = true
  /// The names of the extensions that the transaction has used, and may have written to without a change of rows. Known
  /// only if the commit is observed.
  private(set) var used: Set<String> = []
  /// The names of the extensions whose definition was replaced, so that their content is different.
  private(set) var replaced: Set<String> = []

  init() {}

  var isEmpty: Bool { byName.isEmpty && replaced.isEmpty }

  /// Collects the changes of a transaction's extensions, if they are observed.
  init(_ transaction: WriteTransaction, isObserved: @autoclosure () -> Bool) {
    replaced = transaction.replaced?.names ?? []
    if !transaction.opened.isEmpty, isObserved() { used = Set(transaction.opened.map(\.name)) }
    let reporting = transaction.opened.filter { open in
      open.registered.traits.reportsChanges && !replaced.contains(open.name)
        && !transaction.registered.isShadow(open.registered)
    }
    if reporting.isEmpty { return }
    isComplete = isObserved()
    guard isComplete else { return }
    for open in reporting {
      guard let changes = open.listener?.takenChanges() else { continue }
      byName[open.name] = changes
      if let known = open.registered.definition.countedBytes(of: changes) {
        knownByteCount += known
      } else {
        unknownCount += 1
      }
    }
  }

  /// Returns the memory that the changes take, given that of the rows: the changes of an extension that does not report
  /// their memory count as much as the rows.
  func byteCount(rows: Int) -> Int { knownByteCount + unknownCount * rows }

  /// The value for a commit that was read from the feed, which does not contain these changes.
  static var unknown: ExtensionReports {
    var reports = ExtensionReports()
    reports.isComplete = false
    return reports
  }

  func changes<Definition: DatabaseExtension>(
    of handle: ExtensionHandle<Definition>
  ) -> ExtensionChanges<Definition.Changes> {
    guard isComplete, !replaced.contains(handle.name) else { return .reload }
    guard let found = byName[handle.name] else { return .none }
    return (found as? Definition.Changes).map { .exact($0) } ?? .reload
  }
}
