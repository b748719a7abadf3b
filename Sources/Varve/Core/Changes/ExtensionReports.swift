/// What one commit means for those who observe an extension.
public enum ExtensionChanges<Changes: Sendable>: Sendable {
  /// The commit changed nothing of it.
  case none
  /// What it says of the commit.
  case exact(Changes)
  /// That is not known: read anew what the extension keeps.
  case reload
}

/// What extensions say of one commit.
struct ExtensionReports: Sendable {
  /// By the name of the extension.
  private(set) var byName: [String: any Sendable] = [:]
  /// Whether those that say something were asked.
  var isComplete = true

  init() {}

  /// Asks the extensions of a transaction, where somebody observes.
  init(_ opened: [OpenExtension], isObserved: @autoclosure () -> Bool) {
    let reporting = opened.filter(\.registered.traits.reportsChanges)
    if reporting.isEmpty { return }
    isComplete = isObserved()
    guard isComplete else { return }
    for open in reporting { byName[open.name] = open.hearer?.takenChanges() }
  }

  /// Of a commit that was read from the feed, which does not have them.
  static var unknown: ExtensionReports {
    var reports = ExtensionReports()
    reports.isComplete = false
    return reports
  }

  func changes<Definition: DatabaseExtension>(
    of handle: Registered<Definition>
  ) -> ExtensionChanges<Definition.Changes> {
    guard isComplete else { return .reload }
    guard let found = byName[handle.name] else { return .none }
    return (found as? Definition.Changes).map { .exact($0) } ?? .reload
  }
}
