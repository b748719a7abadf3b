/// What one commit means for those who observe an extension.
public enum ExtensionChanges<Changes: Sendable>: Sendable {
  /// The commit changed nothing of it.
  case none
  /// What it says of the commit.
  case exact(Changes)
  /// That is not known: read again what the extension keeps.
  case reload
}

/// What extensions say of one commit.
struct ExtensionReports: Sendable {
  /// By the name of the extension.
  private(set) var byName: [String: any Sendable] = [:]
  /// The memory of those whose extensions say it.
  private var knownByteCount = 0
  /// How many do not.
  private var unknownCount = 0
  /// Whether those that say something were asked.
  var isComplete = true
  /// Those whose definition was replaced: what they keep is another.
  private(set) var replaced: Set<String> = []

  init() {}

  var isEmpty: Bool { byName.isEmpty && replaced.isEmpty }

  /// Asks the extensions of a transaction, where someone observes.
  init(_ transaction: WriteTransaction, isObserved: @autoclosure () -> Bool) {
    replaced = transaction.replaced?.names ?? []
    let reporting = transaction.opened.filter { open in
      open.registered.traits.reportsChanges && !replaced.contains(open.name)
        && !transaction.registered.isShadow(open.registered)
    }
    if reporting.isEmpty { return }
    isComplete = isObserved()
    guard isComplete else { return }
    for open in reporting {
      guard let changes = open.hearer?.takenChanges() else { continue }
      byName[open.name] = changes
      if let known = open.registered.definition.countedBytes(of: changes) {
        knownByteCount += known
      } else {
        unknownCount += 1
      }
    }
  }

  /// The memory that they take, beside rows that take so much: an extension that does not say how much its changes
  /// take counts as much as the rows.
  func byteCount(rows: Int) -> Int { knownByteCount + unknownCount * rows }

  /// Of a commit that was read from the feed, which does not have them.
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
