public import Varve

/// A collection as the catalog and the storage describe it.
public struct InspectedCollection: Sendable {
  /// Its name.
  public let name: String
  /// How many rows its counter says that it has.
  public let rowCount: Int
  /// About how many bytes its rows take, in tables as they are compressed, and in memtables.
  public let approximateSize: UInt64
  let record: CollectionRecord
  let objects: StorageFamily
  let metadata: StorageFamily
  let keyForm: KeyForm
  /// How its objects are written; nil for a coder of a newer version.
  public let coder: CoderName?
  /// The coder that it was made with, where another has taken over: rows that name none are of it.
  public let firstCoder: CoderName?

  init(
    name: String, record: CollectionRecord, coder: CoderName?, firstCoder: CoderName?, objects: StorageFamily,
    metadata: StorageFamily, rowCount: Int,
    approximateSize: UInt64
  ) {
    self.name = name
    self.record = record
    self.coder = coder
    self.firstCoder = record.writer == record.coder ? nil : firstCoder
    self.objects = objects
    self.metadata = metadata
    self.rowCount = rowCount
    self.approximateSize = approximateSize
    keyForm = KeyForm(record.keyType)
  }

  /// Its number, which stands before the keys of its rows in the shared families.
  public var id: UInt32 { record.id }
  /// The name of the type of its keys: see `KeyType`.
  public var keyType: String { record.keyType }
  /// Whether its rows lie in families of its own.
  public var isOwn: Bool { record.isOwn }
  /// What its catalog record says of the coder that writes.
  public var coderNumber: UInt8 { record.writer }

  /// What its keys begin with in its families.
  var prefix: [UInt8] { record.isOwn ? [] : BigEndian.bytes(record.id) }

  /// What another database needs to make one like it.
  public var terms: PortableCollection {
    get throws {
      guard let coder else {
        throw DatabaseError(.unsupportedVersion, "its coder has the number \(record.writer)", collection: name)
      }
      return PortableCollection(keyType: record.keyType, coder: coder, isOwn: record.isOwn)
    }
  }

  // MARK: - Keys as text

  /// The key that a text says: what `KeyText` makes of a key of this collection's type. For keys of strings the text
  /// may also stand there without quotation marks.
  ///
  /// Throws `.invalidKey` where it says none.
  public func key(_ text: String) throws -> [UInt8] {
    do {
      return try KeyTextReader.key(text, keyForm)
    } catch let error as DatabaseError {
      throw DatabaseError(error.code, error.message, collection: name, key: text)
    }
  }

  /// A range of keys by texts: from a key (included) to a key (excluded), or those that begin with something.
  ///
  /// Of compound keys the first parts are enough. A prefix is text for keys of strings, and the first parts of a
  /// compound. Throws `.invalidKey`, and `.invalidArgument` for a prefix of keys that have none.
  public func range(from lower: String?, to upper: String?, prefix: String? = nil) throws -> StorageRange {
    do {
      if let prefix { return try range(prefix: prefix) }
      let lower = try lower.map { try KeyTextReader.parts($0, keyForm) } ?? []
      let upper = try upper.map { try KeyTextReader.parts($0, keyForm) }
      let all = StorageRange(prefix: self.prefix)
      return StorageRange(lower: self.prefix + lower, upper: upper.map { self.prefix + $0 } ?? all.upper)
    } catch let error as DatabaseError {
      throw DatabaseError(error.code, error.message, collection: name, key: error.key)
    }
  }

  private func range(prefix text: String) throws -> StorageRange {
    var form = keyForm
    var begin = prefix
    while case .optional(let wrapped) = form {
      begin.append(KeyTag.some)
      form = wrapped
    }
    switch form {
    case .string:
      let text = try KeyTextReader.string(text)
      return StorageRange(prefix: KeyRange.prefix(ofStrings: text, after: begin))
    case .compound:
      let parts = prefix + (try KeyTextReader.parts(text, keyForm))
      return StorageRange(lower: parts, upper: KeyRange.end(ofParts: parts))
    default:
      throw DatabaseError(.invalidArgument, "keys that are \(keyType) have no prefix; use a range", key: text)
    }
  }
}
