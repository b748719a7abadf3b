public import Varve

/// Rows that a test finds in its database: what stands in the closure of `fill`.
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
/// Rows of a fixture are new: one that is there already throws `.alreadyExists`, with its collection and key, because
/// two rows of a test that have one key are a mistake.
///
/// A value of one thread, as what it holds may be.
public struct Fixture {
  let write: (Database, WriteTransaction) throws -> Void

  init(writing write: @escaping (Database, WriteTransaction) throws -> Void) { self.write = write }

  /// Runs `body`, in the order in which the steps were declared.
  public init(_ body: @escaping (WriteTransaction) throws -> Void) { write = { _, tx in try body(tx) } }

  // MARK: - Instances

  /// Instances of a format, in the format's own collection. Of those that have their metadata themselves that is set, too.
  public init<Format: StoreFormat>(_ format: Format.Type, _ instances: Format.Instance...) {
    self.init(format, contentsOf: instances)
  }

  /// The same of a sequence, in the format's own collection or another.
  public init<Format: StoreFormat>(
    _ format: Format.Type, contentsOf instances: some Sequence<Format.Instance>, collection: String = Format.collection
  ) {
    write = { database, tx in
      let store = Store(format, in: database, collection: collection)
      for instance in instances { try store.insert(instance, in: tx) }
    }
  }

  /// An instance of a format, and what is kept beside it, in the format's own collection or another.
  public init<Format: StoreFormat>(
    _ format: Format.Type, _ instance: Format.Instance, metadata: Format.Metadata?,
    collection: String = Format.collection
  ) {
    write = { database, tx in
      try Store(format, in: database, collection: collection).insert(instance, metadata: metadata, in: tx)
    }
  }

  // MARK: - Rows

  /// A row without metadata, by collection and key.
  public init(_ collection: String, key: some KeyCodable, _ object: some Encodable) {
    write = { _, tx in
      try Self.requireNew(key, collection, tx)
      try tx.set(object, key: key, in: collection)
    }
  }

  /// A row with metadata, by collection and key.
  public init(_ collection: String, key: some KeyCodable, _ object: some Encodable, metadata: some Encodable) {
    write = { _, tx in
      try Self.requireNew(key, collection, tx)
      try tx.set(object, key: key, in: collection, metadata: metadata)
    }
  }

  /// Rows without metadata by their keys, in one collection: `Fixture("greetings", [1: "hello", 2: "good day"])`.
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
