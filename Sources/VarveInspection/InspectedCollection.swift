public import Varve

/// A collection as the catalog and the storage describe it.
public struct InspectedCollection: Sendable {
  /// The name.
  public let name: String
  /// The number of rows according to its counter.
  public let rowCount: Int
  /// The approximate size of its rows in bytes: compressed in tables, uncompressed in memtables.
  public let approximateSize: UInt64
  /// Where its rows are.
  public let storage: CollectionStorage
  let record: CollectionRecord
  let objects: StorageFamily
  let metadata: StorageFamily
  let keyForm: KeyForm
  /// The coder that writes its objects, or `nil` if it is a newer version's coder.
  public let coder: CoderName?
  /// The coder that the collection was created with, which rows that name no coder use. It differs from `coder` if the
  /// coder was replaced, and is `nil` if it is a newer version's coder.
  public let firstCoder: CoderName?

  init(
    name: String, record: CollectionRecord, coder: CoderName?, firstCoder: CoderName?, objects: StorageFamily,
    metadata: StorageFamily, rowCount: Int, approximateSize: UInt64, storage: CollectionStorage
  ) {
    self.name = name
    self.record = record
    self.coder = coder
    self.firstCoder = record.writer == record.coder ? nil : firstCoder
    self.objects = objects
    self.metadata = metadata
    self.rowCount = rowCount
    self.approximateSize = approximateSize
    self.storage = storage
    keyForm = KeyForm(record.keyType)
  }

  /// The number that precedes the keys of its rows in the shared families.
  public var id: UInt32 { record.id }
  /// The name of the type of its keys: see `KeyType`.
  public var keyType: String { record.keyType }
  /// Whether its rows are in families of its own.
  public var isOwn: Bool { record.isOwn }
  /// The number, in its catalog record, of the coder that writes.
  public var coderNumber: UInt8 { record.writer }

  /// The prefix of its keys in its families.
  var prefix: [UInt8] { record.isOwn ? [] : BigEndian.bytes(record.id) }

  /// The parameters with which another database creates an equal collection.
  public var terms: PortableCollection {
    get throws {
      guard let coder else {
        throw DatabaseError(.unsupportedVersion, "its coder has the number \(record.writer)", collection: name)
      }
      return PortableCollection(keyType: record.keyType, coder: coder, storage: storage)
    }
  }

  // MARK: - Keys as text

  /// Returns the key for a text as `KeyText` writes it for this collection's key type.
  ///
  /// The quotation marks are optional for string keys.
  ///
  /// Throws `.invalidKey` if the text is not a key.
  public func key(_ text: String) throws -> [UInt8] {
    do {
      return try KeyTextReader.key(text, keyForm)
    } catch let error as DatabaseError {
      throw DatabaseError(error.code, error.message, collection: name, key: text)
    }
  }

  /// Returns a range of keys given as texts: from a key (included) to a key (excluded), or all keys with a prefix.
  ///
  /// For compound keys the first parts are enough. A prefix is text for string keys, and the first parts for compound
  /// keys. Throws `.invalidKey`, and `.invalidArgument` for a prefix of keys that don't support one.
  public func range(from lower: String?, to upper: String?, prefix: String? = nil) throws -> StorageRange {
    do {
      if let prefix { return try keyForm.range(prefix: prefix, after: self.prefix, keyType) }
      let lower = try lower.map { try KeyTextReader.parts($0, keyForm) } ?? []
      let upper = try upper.map { try KeyTextReader.parts($0, keyForm) }
      let all = StorageRange(prefix: self.prefix)
      return StorageRange(lower: self.prefix + lower, upper: upper.map { self.prefix + $0 } ?? all.upper)
    } catch let error as DatabaseError {
      throw DatabaseError(error.code, error.message, collection: name, key: error.key)
    }
  }
}
