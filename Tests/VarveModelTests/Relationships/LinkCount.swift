import EngineTestSupport
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// An extension that is used with relationships: it counts the links of each row, and receives changes that rules
/// make like those that the program makes.
///
/// With late delivery, it receives them after the current change.
struct LinkCount: DatabaseExtension {
  static let kind = "test.linkcount"
  var delivery: ExtensionConfiguration.Delivery

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.delivery = delivery
    configuration.parts = [PartDefinition("counts")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> LinkCountTransaction {
    try LinkCountTransaction(context)
  }
}

final class LinkCountTransaction: ExtensionTransaction {
  typealias Definition = LinkCount
  private let counts: Part

  init(_ context: ExtensionContext<LinkCount>) throws { counts = try context.part("counts") }

  func didChange(_ change: borrowing RowChange) throws {
    let key = Array("\(change.key)".utf8)
    guard let thing = try change.row?.object(as: Thing.self) else { return try counts.delete(key) }
    try counts.put(key, [UInt8(thing.links.count), UInt8(thing.notes.count % 256)])
  }

  /// Returns lines such as `a/"a1" 2 0`.
  func lines() throws -> [String] {
    var lines: [String] = []
    var cursor = try counts.cursor()
    while let (key, value) = try cursor.next() {
      lines.append("\(String(decoding: key, as: UTF8.self)) \(value[0]) \(value[1])")
    }
    return lines
  }
}

/// An index of the rows of one collection, which is used with relationships.
let linkIndex = RowIndex("links", in: "a", version: 1) { row in try row.object(as: Thing.self).links.count }
