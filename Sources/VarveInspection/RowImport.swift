public import Varve

/// Sets rows from another database through the API for encoded rows. `varve load --collection` uses it.
///
/// ```swift
/// let rowImport = try RowImport(into: "books", of: database, as: collection)
/// let rows = try lines.map { try rowImport.prepare($0) }
/// try rowImport.commit(rows)
/// ```
///
/// Extensions are notified of these rows as of any other rows. Persistent extensions that are not registered are stale
/// after the commit. An existing row is replaced and keeps its row id.
///
/// Safe from any thread.
public struct RowImport: Sendable {
  private let core: DatabaseCore
  private let coding: InspectedCoding
  private let keyForm: KeyForm
  private let name: String
  /// The collection's id, kept because another collection may later have the same name.
  private let id: UInt32
  /// The coder of the rows.
  public let coder: CoderName

  /// Creates an import into a collection, which is created from `terms` if it is missing.
  ///
  /// Throws `.notFound` if the collection is missing and `terms` is `nil`, `.definitionDiffers` if it exists and
  /// differs from `terms`, and `.readOnly`.
  public init(into collection: String, of database: Database, as terms: PortableCollection?) throws {
    core = database.core
    name = collection
    try core.requireWritable()
    guard !collection.isEmpty else { throw DatabaseError(.invalidArgument, "a collection's name is empty") }
    if let info = core.catalog.collection(collection) {
      if let terms { try Self.check(info, terms) }
      keyForm = KeyForm(info.record.keyType)
      id = info.record.id
      coder = terms?.coder ?? CoderName(info.coderName(marked: info.coderMark))
    } else {
      guard let terms else {
        throw DatabaseError(
          .notFound,
          "the database has no such collection, and its first row does not describe one: a line needs `keyType` and `coder`",
          collection: collection)
      }
      keyForm = KeyForm(terms.keyType)
      coder = terms.coder
      id = try core.catalog.collection(
        collection, keyType: terms.keyType, coderName: terms.coder.name, storage: terms.storage
      ).record.id
    }
    coding = InspectedCoding(core.catalog)
  }

  private static func check(_ info: CollectionInfo, _ terms: PortableCollection) throws {
    func differs(_ what: String, _ here: String, _ there: String) -> DatabaseError {
      DatabaseError(.definitionDiffers, "its \(what) is \(here), and that of the rows \(there)", collection: info.name)
    }
    guard info.record.keyType == terms.keyType else { throw differs("key type", info.record.keyType, terms.keyType) }
    // Rows of a collection whose coder was replaced are of the first coder or the current one.
    let coders = [info.coderName(marked: info.coderMark), info.coderName(marked: nil)]
    guard coders.contains(terms.coder.name) else { throw differs("coder", coders[0], "\(terms.coder)") }
  }

  private func info() throws -> CollectionInfo {
    guard let info = core.catalog.collection(name), info.record.id == id else {
      throw DatabaseError(.notFound, "the collection was dropped", collection: name)
    }
    return info
  }

  /// Checks a row, and assigns its shapes and versions the numbers that they have in this database.
  ///
  /// Throws `.keyTypeDiffers`, `.invalidKey`, `.keyTooLong`, and `.corruption` or `.decodingFailed` for a value that is
  /// not valid for the collection's coder. The rows of the database are not changed.
  public func prepare(_ row: PortableRow) throws -> PreparedRow {
    let info = try info()
    do {
      try keyForm.check(row.key, info.record.keyType, in: name)
      let key = info.prefix + row.key
      guard key.count <= core.limits.keySize else {
        throw DatabaseError(.keyTooLong, "the key has \(key.count) bytes, and the storage takes \(core.limits.keySize)")
      }
      return PreparedRow(
        key: key, object: try prepare(row.object, coder, info),
        metadata: try row.metadata.map { try prepare($0, coder.ofMetadata, info) })
    } catch let error as DatabaseError {
      throw error.about(RowKey(collection: name, bytes: row.key))
    }
  }

  private func prepare(
    _ value: PortableValue, _ coder: CoderName, _ info: CollectionInfo
  ) throws -> PreparedValue {
    // The mark comes from the rows' coder: metadata of raw objects is binary, so it does not determine the coder.
    let mark = info.record.mark(try core.catalog.number(ofCoderNamed: self.coder.name))
    let version = try value.version.map { try core.catalog.number(ofVersion: $0, in: name) } ?? 0
    let (shape, bytes) = try coding.stored(value, coder: coder)
    let json = try coding.json(bytes[...], shape: shape, coder: coder)
    return PreparedValue(coded: CodedValue(coder: mark, version: version, shape: shape, bytes: bytes), json: json)
  }

  /// Sets rows in one commit, which survives a power loss when this returns. Throws like `write`.
  public func commit(_ rows: [PreparedRow], label: String? = nil) throws {
    try core.write(WriteTerms(label: label, durability: .power)) { transaction in
      for row in rows {
        try transaction.setCoded(row.object.coded, metadata: row.metadata?.coded, storageKey: row.key, try info())
      }
    }
  }
}

/// A row that can be set, created by `RowImport.prepare`.
public struct PreparedRow: Sendable {
  let key: [UInt8]
  /// The object.
  public let object: PreparedValue
  /// The metadata, or `nil` if the row has none.
  public let metadata: PreparedValue?

  /// The size of the key, the object and the metadata in bytes.
  public var size: Int { key.count + object.coded.bytes.count + (metadata?.coded.bytes.count ?? 0) }
}

/// An object or metadata that can be set.
public struct PreparedValue: Sendable {
  let coded: CodedValue
  /// The value as JSON on one line, as an inspector shows it, or `nil` if its bytes can't be converted.
  public let json: String?
}
