import EngineTestSupport
import Testing
import VarveInspection

@testable import ObjectFixtures
@testable import Varve

/// The ways in which an inspector reads a database that changes.
enum InspectedKind: CaseIterable, Sendable {
  /// The inspector was opened while another database writes; each state needs another opening.
  case opened
  /// It follows the database that writes.
  case followed
  /// It inspects the database that is open, on disk or in memory.
  case open, inMemory
}

/// A database that a test writes, and inspectors of its newest state.
final class InspectedSite {
  let database: Database
  private let kind: InspectedKind
  private let directory: TemporaryDirectory
  private var inspectors: [DatabaseInspector] = []

  init(_ kind: InspectedKind, _ definition: DatabaseDefinition, _ options: DatabaseOptions = DatabaseOptions()) throws {
    self.kind = kind
    directory = try TemporaryDirectory()
    database =
      kind == .inMemory
      ? try Database.inMemory(definition: definition, options: options)
      : try Database.open(at: directory.path + "/db", definition: definition, options: options)
  }

  /// Returns an inspector of the newest state.
  func inspector() throws -> DatabaseInspector {
    switch (kind, inspectors.last) {
    case (.opened, let last):
      try last?.close()
      inspectors = [try DatabaseInspector.open(at: directory.path + "/db")]
    case (_, let last?): inspectors.append(try last.present())
    case (.followed, nil): inspectors = [try DatabaseInspector.open(at: directory.path + "/db", follows: true)]
    case (.open, nil), (.inMemory, nil): inspectors = [try DatabaseInspector(database)]
    }
    let newest = try #require(inspectors.last)
    #expect(newest.version >= (try database.lastVersion()))
    return newest
  }

  func end() throws {
    try inspectors.last?.close()
    try database.endNow()
  }
}

/// Sends a position through its text and through JSON, as a program does that keeps it or passes it on.
func sent(_ position: InspectedPosition?) throws -> InspectedPosition? {
  guard let position else { return nil }
  let text = try InspectedPosition(position.description)
  let json = try JSONText.decoded(InspectedPosition.self, try JSONText.encoded(position))
  #expect(text == position && json == position)
  return json
}
