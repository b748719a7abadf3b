/// The types of a database, their collections and formats, and its extensions: what a program knows before it opens it.
///
/// ```swift
/// var definition = DatabaseDefinition()
/// try definition.add(BookFormat.self)
/// try definition.add(CollectionDefinition("notes", Note.self, key: UUID.self))
/// let words = try definition.add(WordCount(), as: "words")
/// let database = try Database.open(at: path, definition: definition)
/// ```
///
/// A collection has one type, one coder and one format: a second definition of it is an error.
public struct DatabaseDefinition: Sendable {
  private(set) var collections: [String: CollectionDefinition] = [:]
  /// In the order in which they were added.
  private(set) var extensions: [DefinedExtension] = []

  /// Nothing is defined.
  public init() {}

  /// Adds a collection. Throws `.alreadyDefined`, and `.invalidDefinition` where a rule is for objects of another type.
  public mutating func add(_ collection: CollectionDefinition) throws {
    guard collections[collection.name] == nil else {
      throw DatabaseError(.alreadyDefined, "the definition has it already", collection: collection.name)
    }
    try collection.checkRules()
    collections[collection.name] = collection
  }

  /// Adds an extension, which is registered when the database is opened: no write of the program goes past it.
  ///
  /// What it misses is built in the background after the open: `Database.ready` waits for that. Those that it depends on
  /// are added before. Of a database that is only read it is each use that throws where the disk has not what the
  /// extension would keep. Throws `.alreadyDefined`; `open` throws what `Database.register` throws. The handle is the one
  /// that `Database.register` returns.
  @discardableResult
  public mutating func add<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    let name = Name.composed(name)
    guard !extensions.contains(where: { $0.name == name }) else {
      throw DatabaseError(.alreadyDefined, "the definition has an extension \"\(name)\" already")
    }
    extensions.append(
      DefinedExtension(name: name) { core in
        if core.backend.isReadOnly {
          _ = try core.registerReadOnly(definition, name, isCheckedAtUse: true)
        } else {
          _ = try core.register(definition, name, progress)
        }
      })
    return ExtensionHandle(name: name)
  }
}

/// An extension that a definition has.
struct DefinedExtension: Sendable {
  let name: String
  let register: @Sendable (DatabaseCore) throws -> Void
}
