public import Varve

/// Rows that a test puts into its database, declared in the closure of `fill`.
///
/// ```swift
/// var values = SampleValues(seed: 7)
/// try database.fill {
///   Fixture(BookFormat.self, emma, persuasion)
///   Fixture(BookFormat.self, sanditon, metadata: Stars(5))
///   Fixture("greetings", key: 1, "hello", metadata: ["language": "en"])
///   ada                                        // an item of a Persistable type, or a sequence of them
///   for number in 1...100 { Contact(id: number, name: values.words(2)) }
/// }
/// ```
///
/// The rows of a fixture must be new. A row that exists already throws `.alreadyExists` with its collection and key,
/// because two rows of a test with the same key are a mistake.
///
/// Use a fixture on one thread only, because the objects that it contains need not be `Sendable`.
public struct Fixture {
  let write: (Database, WriteTransaction) throws -> Void

  init(writing write: @escaping (Database, WriteTransaction) throws -> Void) { self.write = write }

  /// Creates a step that runs `body` in the order in which the steps were declared.
  public init(_ body: @escaping (WriteTransaction) throws -> Void) { write = { _, tx in try body(tx) } }

  // MARK: - Instances

  /// Creates a fixture of instances of a format in the format's own collection, with the metadata of instances that
  /// contain theirs.
  public init<Format: StoreFormat>(_ format: Format.Type, _ instances: Format.Instance...) {
    self.init(format, contentsOf: instances)
  }

  /// Creates a fixture of a sequence of instances, in the format's own collection or another one.
  public init<Format: StoreFormat>(
    _ format: Format.Type, contentsOf instances: some Sequence<Format.Instance>, collection: String = Format.collection
  ) {
    write = { database, tx in
      let store = Store(format, in: database, collection: collection)
      for instance in instances { try store.insert(instance, in: tx) }
    }
  }

  /// Creates a fixture of an instance of a format and its metadata, in the format's own collection or another one.
  public init<Format: StoreFormat>(
    _ format: Format.Type, _ instance: Format.Instance, metadata: Format.Metadata?,
    collection: String = Format.collection
  ) {
    write = { database, tx in
      try Store(format, in: database, collection: collection).insert(instance, metadata: metadata, in: tx)
    }
  }

  // MARK: - Rows

  /// Creates a fixture of a row without metadata, given its collection and key.
  public init(_ collection: String, key: some KeyCodable, _ object: some Encodable) {
    write = { _, tx in
      try Self.requireNew(key, collection, tx)
      try tx.set(object, key: key, in: collection)
    }
  }

  /// Creates a fixture of a row with metadata, given its collection and key.
  public init(_ collection: String, key: some KeyCodable, _ object: some Encodable, metadata: some Encodable) {
    write = { _, tx in
      try Self.requireNew(key, collection, tx)
      try tx.set(object, key: key, in: collection, metadata: metadata)
    }
  }

  /// Creates a fixture of rows without metadata in one collection, given by their keys:
  /// `Fixture("greetings", [1: "hello", 2: "good day"])`.
  public init<Key: KeyCodable, Object: Encodable>(_ collection: String, _ rows: KeyValuePairs<Key, Object>) {
    write = { _, tx in
      for (key, object) in rows {
        try Self.requireNew(key, collection, tx)
        try tx.set(object, key: key, in: collection)
      }
    }
  }

  private static func requireNew(_ key: some KeyCodable, _ collection: String, _ tx: WriteTransaction) throws {
    guard try tx.contains(key: key, in: collection) else { return }
    throw DatabaseError(
      .alreadyExists, "a fixture's row is there already", collection: collection,
      key: try RowKey(key, in: collection).text)
  }
}

@available(*, unavailable)
extension Fixture: Sendable {}
