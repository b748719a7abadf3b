/// Puts together what stands in the closure of a ``DatabaseDefinition`` or of `Database.open`: extensions, collections, other
/// definitions, and all of it under `if`, `switch` and `for`. Formats and types with a collection, too.
@resultBuilder
public enum DatabaseDefinitionBuilder {
  /// A collection.
  public static func buildExpression(_ collection: CollectionDefinition) -> DatabaseDefinition {
    DatabaseDefinition(collection)
  }

  /// An extension, known by its handle.
  public static func buildExpression<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>
  ) -> DatabaseDefinition {
    DatabaseDefinition(DefinedExtension(handle, nil))
  }

  /// An extension that reports the progress of its build.
  public static func buildExpression(_ defined: DefinedExtension) -> DatabaseDefinition { DatabaseDefinition(defined) }

  /// All of another definition.
  public static func buildExpression(_ definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Several.
  public static func buildBlock(_ definitions: DatabaseDefinition...) -> DatabaseDefinition {
    buildArray(definitions)
  }

  /// Those of a loop.
  public static func buildArray(_ definitions: [DatabaseDefinition]) -> DatabaseDefinition {
    DatabaseDefinition(joining: definitions)
  }

  /// Those of an `if` without an `else`.
  public static func buildOptional(_ definition: DatabaseDefinition?) -> DatabaseDefinition {
    definition ?? DatabaseDefinition()
  }

  /// Those of the first branch.
  public static func buildEither(first definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Those of the second branch.
  public static func buildEither(second definition: DatabaseDefinition) -> DatabaseDefinition { definition }

  /// Those that need a newer system.
  public static func buildLimitedAvailability(_ definition: DatabaseDefinition) -> DatabaseDefinition { definition }
}
