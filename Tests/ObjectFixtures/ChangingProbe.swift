import Varve

/// An extension that says of each commit which rows it set.
struct ChangingProbe: DatabaseExtension {
  static let kind = "test.changingProbe"
  let versionTag = "1"
  func makeTransaction(_ context: ExtensionContext) -> ChangingProbeTransaction { ChangingProbeTransaction() }
}

final class ChangingProbeTransaction: ExtensionTransaction {
  typealias Definition = ChangingProbe
  private var rows: [String] = []

  func didInsert(_ row: Row) throws { rows.append("\(row.key.collection)/\(row.key.text)") }
  func takeChanges() -> (any Sendable)? { rows.isEmpty ? nil : rows.joined(separator: " ") }
}
