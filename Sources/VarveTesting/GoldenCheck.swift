internal import Varve
internal import VarveInspection

/// Migrates a database, and reads every row of it.
struct GoldenCheck {
  private let database: Database
  private let formats: [String: any StoreFormat.Type]
  /// The collections that the definition declares without a format.
  private let plain: [String]

  init(_ database: Database, _ definition: DatabaseDefinition) {
    self.database = database
    let collections = definition.collectionFormats
    formats = Dictionary(uniqueKeysWithValues: collections.compactMap { name, format in format.map { (name, $0) } })
    plain = collections.filter { $0.format == nil }.map(\.name)
  }

  /// Runs the check. Throws the error of the first row that fails.
  func run() throws {
    for (name, format) in formats.sorted(by: { $0.key < $1.key }) { try check(format, name) }
    for name in plain { try checkPlain(name) }
    try checkStored()
  }

  // MARK: - As the definition reads them

  private func check<Format: StoreFormat>(_ format: Format.Type, _ name: String) throws {
    let store = Store(format, in: database, collection: name)
    // The indexes are checked before any row is rewritten, so that the comparison sees the user's database and not the
    // result of a migration.
    try checkIndexes(of: store)
    // A format may skip or replace what it can't decode; a snapshot must not have it.
    if let row = try database.read({ tx in try store.undecodableRows(limit: 1, in: tx) }).first { throw row.error }
    try store.migrate()
    try checkIndexes(of: store)
    try database.read { tx in
      var ids = try store.ids(in: tx)
      while let id = try ids.next() { try check(id, store, tx) }
    }
  }

  /// Throws `.definitionDiffers` if the indexes differ from the rows.
  ///
  /// Waits until the indexes are built, and reviewed if their version differs.
  private func checkIndexes<Format: StoreFormat>(of store: Store<Format>) throws {
    try store.warm()
    let differences = try store.verifyIndexes()
    guard let first = differences.first else { return }
    let others = differences.count == 1 ? "" : ", and \(differences.count - 1) more"
    throw DatabaseError(
      .definitionDiffers,
      "what rows have in an index is not what the snapshot has: \(first)\(others); raise the version of the format, or the "
        + "`version:` of the index, so that it is reviewed", collection: store.collection, key: first.row.text)
  }

  private func check<Format: StoreFormat>(
    _ id: Format.Identifier, _ store: Store<Format>, _ tx: ReadTransaction
  ) throws {
    guard let instance = try store.load(id, in: tx) else { return }
    if Format.Metadata.self != Never.self { _ = try store.metadata(of: id, in: tx) }
    let own = Format.identifier(of: instance)
    guard own == id else {
      throw DatabaseError(
        .decodingFailed, "the instance that is found by this key has another identifier, \(own)",
        collection: store.collection, key: try RowKey(id, in: store.collection).text)
    }
  }

  private func checkPlain(_ name: String) throws {
    try database.read { tx in
      var rows = try tx.rows(in: name)
      while let row = try rows.next() { _ = try row.definedObject() }
    }
  }

  // MARK: - As they are stored

  /// Checks the stored rows with an inspector, so that the versions and the metadata are not determined by the code
  /// that migrated them.
  private func checkStored() throws {
    let inspector = try DatabaseInspector.open(at: database.path)
    defer { try? inspector.close() }
    for collection in try inspector.collections(fault: { throw $0 }) {
      let format = formats[collection.name]
      var rows = try inspector.rows(in: collection)
      while let row = try rows.next() {
        let contents = try row.contents()
        guard let format else { continue }
        try requireCurrent(contents.object, "object", row.key, format)
        if let metadata = contents.metadata { try requireCurrent(metadata, "metadata", row.key, format) }
      }
    }
  }

  private func requireCurrent<Format: StoreFormat>(
    _ value: InspectedValue, _ what: String, _ row: RowKey, _ format: Format.Type
  ) throws {
    let current = format.currentVersion.rawValue.description
    guard format.Version.self != SingleVersion.self, value.version != current else { return }
    let version = value.version.map { "version \"\($0)\"" } ?? "no version"
    throw DatabaseError(
      .definitionDiffers, "the \(what) has \(version) after the migration; expected \"\(current)\"",
      collection: row.collection, key: row.text)
  }
}
