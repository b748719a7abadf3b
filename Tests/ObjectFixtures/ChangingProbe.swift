import Varve

/// An extension that reports, for each commit, which rows it set.
struct ChangingProbe: DatabaseExtension {
  static let kind = "test.changingProbe"
  typealias Changes = String
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = .inserts
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) -> ChangingProbeTransaction { ChangingProbeTransaction() }
}

final class ChangingProbeTransaction: ExtensionTransaction {
  typealias Definition = ChangingProbe
  private var rows: [String] = []

  func didChange(_ change: borrowing RowChange) throws { rows.append("\(change.collection)/\(change.key.text)") }
  func takeChanges() -> String? { rows.isEmpty ? nil : rows.joined(separator: " ") }
}
