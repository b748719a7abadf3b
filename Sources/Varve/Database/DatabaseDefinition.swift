/// The types of a database, their collections and formats, and its extensions: the program's schema of the database.
///
/// ```swift
/// extension Database {
///   static let words = WordCount().named("words")
/// }
///
/// let database = try Database.open(at: path) {
///   BookFormat.self                                           // a format
///   Contact.self                                              // a type with a collection
///   CollectionDefinition("notes", Note.self, key: UUID.self)  // a collection by its name
///   Database.words                                            // an extension
/// }
/// let count = try database.read { tx in try tx[Database.words].count(of: "sea") }
/// ```
///
/// A definition that is used more than once can be stored: `let definition = DatabaseDefinition { BookFormat.self }`.
/// ``DatabaseDefinitionBuilder`` lists its possible elements. A collection has one type, one coder and one format;
/// opening a database with a definition that contradicts this throws `.alreadyDefined` or `.invalidDefinition` before
/// anything is written.
///
/// # Extensions
/// Extensions are registered when the database is opened, in their order, after those that they depend on, so they
/// receive every write of the program. What they have missed is built in the background after the open:
/// `Database.waitUntilReady` waits for that. In a database that is only read, each use throws if the content on disk
/// does not match the extension. `open` throws what `Database.register` throws.
///
/// A value: safe from any thread.
public struct DatabaseDefinition: Sendable {
  private(set) var collections: [String: CollectionDefinition] = [:]
  /// The extensions in the order in which they were added.
  private(set) var extensions: [DefinedExtension] = []
  /// The first error that was found in the definition.
  private var mistake: DatabaseError?

  /// Creates an empty definition.
  public init() {}

  /// Creates a definition of the listed contents. Throws what `contents` throws.
  public init(@DatabaseDefinitionBuilder _ contents: () throws -> DatabaseDefinition) rethrows {
    self = try contents()
  }

  init(_ collection: CollectionDefinition) {
    self.init(inserting: { (definition: inout DatabaseDefinition) in try definition.insert(collection) })
  }

  init(_ defined: DefinedExtension) { extensions = [defined] }

  /// Creates a definition of what `body` inserts. An error of `body` is thrown when a database is opened.
  init(inserting body: (inout DatabaseDefinition) throws -> Void) {
    do {
      try body(&self)
    } catch let error as DatabaseError {
      mistake = error
    } catch {
      mistake = DatabaseError(.invalidDefinition, "the definition can't be made", cause: error)
    }
  }

  /// Joins definitions in their order.
  init(joining definitions: [DatabaseDefinition]) {
    self.init(inserting: { (joined: inout DatabaseDefinition) in
      for definition in definitions {
        try definition.check()
        for collection in definition.collections.values { try joined.insert(collection) }
        for defined in definition.extensions { try joined.insert(defined) }
      }
    })
  }

  private mutating func insert(_ collection: CollectionDefinition) throws {
    guard collections[collection.name] == nil else {
      throw DatabaseError(.alreadyDefined, "the definition has it already", collection: collection.name)
    }
    try collection.checkRules()
    collections[collection.name] = collection
  }

  private mutating func insert(_ defined: DefinedExtension) throws {
    guard !extensions.contains(where: { $0.name == defined.name }) else {
      throw DatabaseError(.alreadyDefined, "the definition has an extension \"\(defined.name)\" already")
    }
    extensions.append(defined)
  }

  /// Checks the definition. Throws `.alreadyDefined`, `.invalidDefinition`.
  func check() throws {
    if let mistake { throw mistake }
    var coders = CoderTable()
    for collection in collections.values {
      for coder in [collection.coder] + collection.formerCoders { try coders.add(coder) }
    }
    var claims: [String: String] = [:]
    for collection in collections.values.sorted(by: { $0.name < $1.name }) {
      for former in collection.formerKeys {
        if collections[former] != nil {
          throw DatabaseError(
            .invalidDefinition, "its former name \"\(former)\" is that of a collection of the definition",
            collection: collection.name)
        }
        if let other = claims.updateValue(collection.name, forKey: former) {
          throw DatabaseError(
            .invalidDefinition, "\"\(former)\" is a former name of it, and of \"\(other)\"", collection: collection.name
          )
        }
      }
    }
  }
}

/// An extension of a definition: an ``ExtensionHandle``, or the result of ``ExtensionHandle/reportingProgress(_:)``.
public struct DefinedExtension: Sendable {
  let name: String
  let register: @Sendable (DatabaseCore) throws -> Void

  init<Definition: DatabaseExtension>(
    _ handle: ExtensionHandle<Definition>, _ progress: (@Sendable (BuildProgress) -> Void)?
  ) {
    name = handle.name
    register = { core in
      if core.backend.isReadOnly {
        _ = try core.registerReadOnly(handle.definition, handle.name, isCheckedAtUse: true)
      } else {
        _ = try core.register(handle.definition, handle.name, progress)
      }
    }
  }
}

extension ExtensionHandle {
  /// Returns the extension for a definition, with a closure that is called after each chunk of its build.
  public func reportingProgress(_ progress: @escaping @Sendable (BuildProgress) -> Void) -> DefinedExtension {
    DefinedExtension(self, progress)
  }
}

extension DatabaseExtension {
  /// Returns a handle of the extension under a name, for definitions (``DatabaseDefinition``) and for `tx[handle]`.
  /// Nothing is registered.
  ///
  /// ```swift
  /// static let words = WordCount().named("words")
  /// ```
  public func named(_ name: String) -> ExtensionHandle<Self> {
    ExtensionHandle(name: Name.composed(name), definition: self)
  }
}
