public import Varve

/// Builds the rows declared in the closure of `fill`.
///
/// The closure may contain fixtures, items of ``Persistable`` types and sequences of these, also inside `if`, `switch`
/// and `for`.
@resultBuilder
public enum FixtureBuilder {
  /// Returns a fixture unchanged.
  public static func buildExpression(_ fixture: Fixture) -> Fixture { fixture }

  /// Returns a fixture of an item, with its metadata if it has any.
  public static func buildExpression<Item: Persistable>(_ item: Item) -> Fixture {
    Fixture(PersistableFormat<Item>.self, item)
  }

  /// Returns a fixture of items, with their metadata if they have any.
  public static func buildExpression<Item: Persistable>(_ items: some Sequence<Item>) -> Fixture {
    Fixture(PersistableFormat<Item>.self, contentsOf: items)
  }

  /// Returns a fixture that writes several fixtures, one after the other.
  public static func buildBlock(_ fixtures: Fixture...) -> Fixture { buildArray(fixtures) }

  /// Returns a fixture that writes the fixtures of a loop.
  public static func buildArray(_ fixtures: [Fixture]) -> Fixture {
    Fixture(writing: { database, tx in for fixture in fixtures { try fixture.write(database, tx) } })
  }

  /// Returns the fixture of an `if` without an `else`, or an empty fixture.
  public static func buildOptional(_ fixture: Fixture?) -> Fixture { fixture ?? buildArray([]) }

  /// Returns the fixture of the first branch.
  public static func buildEither(first fixture: Fixture) -> Fixture { fixture }

  /// Returns the fixture of the second branch.
  public static func buildEither(second fixture: Fixture) -> Fixture { fixture }

  /// Returns the fixture that needs a newer system.
  public static func buildLimitedAvailability(_ fixture: Fixture) -> Fixture { fixture }
}

extension Database {
  /// Writes the rows of a test in one transaction and in their order, and returns the database.
  ///
  /// If a row throws, no row is written.
  ///
  /// ```swift
  /// let database = try Database.inMemory().fill { Fixture("greetings", key: 1, "hello") }
  /// ```
  ///
  /// The call blocks its thread, also in a task. It throws `.alreadyExists` for a row that exists, and the errors of
  /// writing a row and of `Database.write`.
  @discardableResult
  public func fill(label: String? = nil, @FixtureBuilder _ rows: () throws -> Fixture) throws -> Database {
    let fixture = try rows()
    try write(label: label) { tx in try fixture.write(self, tx) }
    return self
  }
}
