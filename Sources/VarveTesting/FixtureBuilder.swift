public import Varve

/// Puts the rows together that stand in the closure of `fill`: fixtures, items of ``Persistable`` types, sequences of
/// these, and all of it below `if`, `switch` and `for`.
@resultBuilder
public enum FixtureBuilder {
  /// A fixture as it is.
  public static func buildExpression(_ fixture: Fixture) -> Fixture { fixture }

  /// An item, and its metadata where it has some.
  public static func buildExpression<Item: Persistable>(_ item: Item) -> Fixture {
    Fixture(PersistableFormat<Item>.self, item)
  }

  /// Items, and their metadata where they have some.
  public static func buildExpression<Item: Persistable>(_ items: some Sequence<Item>) -> Fixture {
    Fixture(PersistableFormat<Item>.self, contentsOf: items)
  }

  /// Several, one after the other.
  public static func buildBlock(_ fixtures: Fixture...) -> Fixture { buildArray(fixtures) }

  /// The fixtures of a loop.
  public static func buildArray(_ fixtures: [Fixture]) -> Fixture {
    Fixture(writing: { database, tx in for fixture in fixtures { try fixture.write(database, tx) } })
  }

  /// The fixtures of an `if` without an `else`.
  public static func buildOptional(_ fixture: Fixture?) -> Fixture { fixture ?? buildArray([]) }

  /// The fixtures of the first branch.
  public static func buildEither(first fixture: Fixture) -> Fixture { fixture }

  /// The fixtures of the second branch.
  public static func buildEither(second fixture: Fixture) -> Fixture { fixture }

  /// The fixtures that need a newer system.
  public static func buildLimitedAvailability(_ fixture: Fixture) -> Fixture { fixture }
}

extension Database {
  /// Writes the rows of a test, in one transaction and in their order: all of them, or where it throws none. Returns the
  /// database.
  ///
  /// ```swift
  /// let database = try Database.inMemory().fill { Fixture("greetings", key: 1, "hello") }
  /// ```
  ///
  /// It waits on its thread, in tasks too. Throws `.alreadyExists` for a row that is there, and what writing a row and
  /// `Database.write` throw.
  @discardableResult
  public func fill(label: String? = nil, @FixtureBuilder _ rows: () throws -> Fixture) throws -> Database {
    let fixture = try rows()
    try write(label: label) { tx in try fixture.write(self, tx) }
    return self
  }
}
