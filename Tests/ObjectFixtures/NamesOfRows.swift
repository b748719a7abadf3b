@testable import Varve

/// An extension that keeps the name of the collection of each row.
struct NamesOfRows: DatabaseExtension {
  static let kind = "test.names"
  var scope = CollectionScope.all
  var dependencies: [String] = []
  /// The rows that the extension received.
  let given = Called()

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.dependencies = dependencies
    configuration.parts = [PartDefinition("names")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> NamesOfRowsTransaction {
    try NamesOfRowsTransaction(context, given)
  }
}

final class NamesOfRowsTransaction: ExtensionTransaction {
  typealias Definition = NamesOfRows
  private let names: Part

  private let given: Called

  init(_ context: ExtensionContext<NamesOfRows>, _ given: Called) throws {
    names = try context.part("names")
    self.given = given
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key
    if try change.row == nil { return try names.delete(Array(key.collection.utf8) + [0] + key.bytes) }
    given.add(key.text)
    try names.put(Array(key.collection.utf8) + [0] + key.bytes, [])
  }

  func counts() throws -> [String: Int] {
    var counts: [String: Int] = [:]
    var cursor = try names.cursor()
    try cursor.forEach { key, _ in counts[String(decoding: key.prefix { $0 != 0 }, as: UTF8.self), default: 0] += 1 }
    return counts
  }
}
