import Testing
import VarveTesting

@testable import Varve
@_spi(Extensions) @testable import VarveTasks

/// Tests of the log line about a collection that the program has not defined.
struct UndefinedCollectionTests {
  /// Returns whether the first write to a collection without a definition logs a line.
  private static func isNoted(_ collection: String, in database: Database) -> Bool {
    database.core.extensions.list.notifiesExternally(of: collection)
  }

  @Test func `the tasks of a database do not note an undefined collection, and an extension that receives it does`()
    throws
  {
    let fixture = try TaskFixture()
    #expect(!Self.isNoted("reminders", in: fixture.database))
    var hooks = Hooks(scope: .only(["reminders"]))
    #expect(hooks.configuration.events.isEmpty)
    try fixture.database.register(hooks, as: "idle")
    #expect(!Self.isNoted("reminders", in: fixture.database))
    hooks.didModify = { _, _ in }
    try fixture.database.register(hooks, as: "busy")
    #expect(Self.isNoted("reminders", in: fixture.database))
    #expect(!Self.isNoted("others", in: fixture.database))
  }
}
