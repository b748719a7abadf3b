/// A result builder for the closure of a ``DatabaseDefinition`` or of `Database.open`.
///
/// Its elements are extensions, collections, formats, types with a collection, and other definitions, also under `if`,
/// `switch` and `for`.
@resultBuilder
public enum DatabaseDefinitionBuilder {
  /// Adds a collection.
  public static func buildExpression(_ collection: CollectionDefinition) -> DatabaseDefinition {
    DatabaseDefinition(collection)
  }

  /// Adds an extension by its handle.
  public static func buildExpression<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>
  ) -> DatabaseDefinition {
    DatabaseDefinition(DefinedExtension(handle, nil))
  }

  /// Adds an extension that reports the progress of its build.
  public static func buildExpression(_ defined: DefinedExtension) -> DatabaseDefinition { DatabaseDefinition(defined) }

  /// Adds the contents of another definition.
  public static func buildExpression(_ definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Joins several definitions.
  public static func buildBlock(_ definitions: DatabaseDefinition...) -> DatabaseDefinition {
    buildArray(definitions)
  }

  /// Joins the definitions of a loop.
  public static func buildArray(_ definitions: [DatabaseDefinition]) -> DatabaseDefinition {
    DatabaseDefinition(joining: definitions)
  }

  /// Returns the definition of an `if` without an `else`.
  public static func buildOptional(_ definition: DatabaseDefinition?) -> DatabaseDefinition {
    definition ?? DatabaseDefinition()
  }

  /// Returns the definition of the first branch.
  public static func buildEither(first definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Returns the definition of the second branch.
  public static func buildEither(second definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Returns a definition that needs a newer system.
  public static func buildLimitedAvailability(_ definition: DatabaseDefinition) -> DatabaseDefinition { definition }
}
