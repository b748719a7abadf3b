/// Changing rows: the door for whoever names collections and types at each call. Every door ends here, so that
/// every extension hears of every change.
///
/// A row of a version that the collection's definition does not know, because a newer program has written it, is
/// replaced by no call, whether of its object or its metadata: `.unsupportedVersion`. Every call removes it.
extension WriteTransaction {
  /// Sets the object of a row, which is made where there is none; the row has no metadata then.
  ///
  /// Throws `.encodingFailed`, `.keyTypeDiffers`, `.keyTooLong`, `.valueTooLong`, `.unsupportedVersion` where a newer
  /// program has written the row, and what a hook throws; then no row has changed. The first `set` into a collection that no definition names makes it, for keys of this type;
  /// that stays, also where the transaction is rolled back.
  public func set<Object: Encodable>(_ object: Object, key: some KeyCodable, in collection: String) throws {
    let (info, key) = try place(key, collection)
    try set(object, key, info, over: try header(key, info))
  }

  /// Sets the object and the metadata of a row, which is made where there is none. Nil: it has no metadata then.
  /// Throws as the form without metadata.
  public func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, key: some KeyCodable, in collection: String, metadata: Metadata?
  ) throws {
    let (info, key) = try place(key, collection)
    try set(object, metadata, key, info)
  }

  /// Sets the object of a row that is there, and keeps its metadata. Returns false where there is no row. Throws as
  /// `set`.
  @discardableResult
  public func replaceObject<Object: Encodable>(
    _ object: Object, key: some KeyCodable, in collection: String
  ) throws -> Bool {
    guard let (info, key) = try existingPlace(key, collection) else { return false }
    return try replaceObject(object, key, info)
  }

  /// Sets the metadata of a row that is there, and keeps its object. Nil: it has none then. Returns false where
  /// there is no row. Throws as `set`.
  @discardableResult
  public func replaceMetadata<Metadata: Encodable>(
    _ metadata: Metadata?, key: some KeyCodable, in collection: String
  ) throws -> Bool {
    guard let (info, key) = try existingPlace(key, collection) else { return false }
    return try replaceMetadata(metadata, key, info)
  }

  /// Takes its metadata from a row, and keeps its object. Returns false where there is no row. Throws as `set`.
  @discardableResult
  public func removeMetadata(key: some KeyCodable, in collection: String) throws -> Bool {
    try replaceMetadata(Bool?.none, key: key, in: collection)
  }

  /// Tells extensions and observers that something about the object of a row has changed which the row doesn't
  /// say. Nothing is written. Returns false where there is no row.
  @discardableResult
  public func touchObject(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .touchedObject)
  }

  /// The same of its metadata.
  @discardableResult
  public func touchMetadata(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .touchedMetadata)
  }

  /// The same of both.
  @discardableResult
  public func touchRow(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .touchedRow)
  }

  /// Removes a row, whatever version has written it. Returns false where there is none.
  @discardableResult
  public func remove(key: some KeyCodable, in collection: String) throws -> Bool {
    guard let (info, key) = try existingPlace(key, collection) else { return false }
    return try remove([key], info) == 1
  }

  /// Removes the rows of several keys. Returns how many there were.
  @discardableResult
  public func remove<Key: KeyCodable>(keys: some Sequence<Key>, in collection: String) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try remove(try keys.map { try info.storageKey($0, limit: database.limits.keySize) }, info)
  }

  // MARK: - Where rows are

  /// The collection, made where there is none, and the key in its families.
  func place<Key: KeyCodable>(_ key: Key, _ collection: String) throws -> (CollectionInfo, [UInt8]) {
    let info =
      try knownInfo(collection)
      ?? database.makeCollection(collection, keyType: Key.keyType.description)
    return (info, try info.storageKey(key, limit: database.limits.keySize))
  }

  /// The same for what changes rows that are there only: nil where the collection has never had one.
  private func existingPlace(_ key: some KeyCodable, _ collection: String) throws -> (CollectionInfo, [UInt8])? {
    guard let info = try info(collection) else { return nil }
    return (info, try info.storageKey(key, limit: database.limits.keySize))
  }

  // MARK: - Versions

  /// Throws `.unsupportedVersion` where a newer program has written the row, or the metadata that is to go.
  @inline(__always)
  func requireReplaceable(
    _ old: RowHeader?, _ key: [UInt8], _ info: CollectionInfo, keepsMetadata: Bool = false
  ) throws {
    guard let old, info.definition != nil else { return }
    let mayBeNewer = !keepsMetadata && old.hasMetadata && info.hasForeignVersions
    guard old.version != info.versions.current || mayBeNewer else { return }
    try requireKnownVersions(old, key, info, metadata: mayBeNewer)
  }

  @inline(never)
  private func requireKnownVersions(
    _ old: RowHeader, _ key: [UInt8], _ info: CollectionInfo, metadata: Bool
  ) throws {
    do {
      _ = try info.versionName(old.version)
      guard metadata, let bytes = try value(of: key, in: info.metadata) else { return }
      _ = try info.versionName(unsafe RowHeader.readMetadata(bytes.span.bytes).version)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
  }

  // MARK: - The operations

  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo
  ) throws {
    try set(object, metadata, key, info, over: try header(key, info))
  }

  /// The same, where it is known what is there.
  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader?
  ) throws {
    if info.definition?.codec.rules.before != nil {
      return try setSanitized(object, key, info, over: old) { _ in try metadata.map { try encoded($0, key, info) } }
    }
    try put(object, try metadata.map { try encoded($0, key, info) }, key, info, over: old)
  }

  /// The same with metadata that the object has itself: that of what the definition's rule makes of it.
  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, metadataAt path: any KeyPath<Object, Metadata?> & Sendable, _ key: [UInt8],
    _ info: CollectionInfo, over old: RowHeader?
  ) throws {
    guard info.definition?.codec.rules.before != nil else {
      return try set(object, object[keyPath: path], key, info, over: old)
    }
    try setSanitized(object, key, info, over: old) { object in
      try object[keyPath: path].map { try encoded($0, key, info) }
    }
  }

  /// The same without metadata. No optional of a generic type is made on this way: its type is looked up at each use.
  func set<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader?
  ) throws {
    if info.definition?.codec.rules.before != nil { return try setSanitized(object, key, info, over: old) { _ in nil } }
    try put(object, nil, key, info, over: old)
  }

  /// Metadata for its family, and for hooks, where somebody hears.
  private func encoded<Metadata: Encodable>(
    _ metadata: Metadata, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> EncodedMetadata {
    EncodedMetadata(
      bytes: try database.coding.encodeMetadata(metadata, key, info), value: registered.isEmpty ? nil : metadata)
  }

  /// The metadata is encoded when there is an object to go with it.
  @inline(never)
  private func setSanitized<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader?,
    metadata: (Object) throws -> EncodedMetadata?
  ) throws {
    try requireReplaceable(old, key, info)
    if let object = try info.sanitized(object) {
      try put(object, try metadata(object), key, info, over: old)
    } else {
      _ = try remove([key], info)
    }
  }

  private func put<Object: Encodable>(
    _ object: Object, _ metadata: EncodedMetadata?, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader?
  ) throws {
    var header = RowHeader(hasMetadata: metadata != nil)
    header.id = try old?.id ?? database.catalog.nextRowID()
    let row = try database.coding.encodeRow(object, key, info, &header)
    let known: Any? = registered.isEmpty ? nil : object
    try put(row, of: known, metadata, key, info, over: old)
    info.didSet(object)
  }

  /// Writes a row that was, or was not, there before. `object` is for hooks, where somebody hears.
  func put(
    _ row: [UInt8], of object: Any?, _ metadata: EncodedMetadata?, _ key: [UInt8], _ info: CollectionInfo,
    over old: RowHeader?
  ) throws {
    try requireReplaceable(old, key, info)
    let change: RowChange = old == nil ? .inserted : .updated
    try willChange(change, key, info, object, metadata, row)
    try write(row, metadata?.bytes, key, info, old)
    changes.note(change, key, info)
    try didChange(change, key, info, object, metadata, row)
  }

  private func write(
    _ row: [UInt8], _ metadata: [UInt8]?, _ key: [UInt8], _ info: CollectionInfo, _ old: RowHeader?
  ) throws {
    try checkSize(row, metadata, key, info)
    try pending.put(key, row, in: info.objects)
    if let metadata {
      try pending.put(key, metadata, in: info.metadata)
    } else if old?.hasMetadata == true {
      try pending.delete(key, in: info.metadata)
    }
    if old == nil { addRows(1, to: info) }
  }

  func replaceObject<Object: Encodable>(_ object: Object, _ key: [UInt8], _ info: CollectionInfo) throws -> Bool {
    guard let old = try header(key, info) else { return false }
    try replaceObject(object, key, info, over: old)
    return true
  }

  /// The same, where it is known what is there.
  func replaceObject<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader
  ) throws {
    if info.definition?.codec.rules.before != nil { return try replaceSanitized(object, key, info, over: old) }
    try replace(object, key, info, over: old)
  }

  @inline(never)
  private func replaceSanitized<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader
  ) throws {
    try requireReplaceable(old, key, info, keepsMetadata: true)
    if let object = try info.sanitized(object) {
      try replace(object, key, info, over: old)
    } else {
      _ = try remove([key], info)
    }
  }

  private func replace<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: RowHeader
  ) throws {
    try requireReplaceable(old, key, info, keepsMetadata: true)
    var header = old
    let row = try database.coding.encodeRow(object, key, info, &header)
    let known: Any? = registered.isEmpty ? nil : object
    try willChange(.replacedObject, key, info, known, nil, row)
    try checkSize(row, nil, key, info)
    try pending.put(key, row, in: info.objects)
    changes.note(.replacedObject, key, info)
    try didChange(.replacedObject, key, info, known, nil, row)
    info.didSet(object)
  }

  func replaceMetadata<Metadata: Encodable>(
    _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> Bool {
    guard let bytes = try value(of: key, in: info.objects) else { return false }
    let stored = try stored(key, bytes, info)
    try requireReplaceable(stored.header, key, info)
    let metadata = try metadata.map { try encoded($0, key, info) }
    var header = stored.header
    header.hasMetadata = metadata != nil
    let row = unsafe header.row(bytes.span.bytes.extracting(stored.objectOffset..<bytes.count))
    try willChange(.replacedMetadata, key, info, nil, metadata, row)
    try checkSize([], metadata?.bytes, key, info)
    if header != stored.header { try pending.put(key, row, in: info.objects) }
    if let metadata {
      try pending.put(key, metadata.bytes, in: info.metadata)
    } else if stored.header.hasMetadata {
      try pending.delete(key, in: info.metadata)
    }
    changes.note(.replacedMetadata, key, info)
    try didChange(.replacedMetadata, key, info, nil, metadata, row)
    return true
  }

  private func touch(_ key: some KeyCodable, _ collection: String, _ change: RowChange) throws -> Bool {
    guard let (info, key) = try existingPlace(key, collection) else { return false }
    return try touch(key, info, change)
  }

  func touch(_ key: [UInt8], _ info: CollectionInfo, _ change: RowChange) throws -> Bool {
    guard let bytes = try value(of: key, in: info.objects) else { return false }
    try requireNoQuestion()
    changes.note(change, key, info)
    try didChange(change, key, info, nil, nil, bytes)
    return true
  }

  /// Removes those of the rows that are there, and returns how many.
  func remove(_ keys: [[UInt8]], _ info: CollectionInfo) throws -> Int {
    var present: [(key: [UInt8], header: RowHeader)] = []
    var seen: Set<[UInt8]> = []
    for key in keys where keys.count == 1 || seen.insert(key).inserted {
      if let header = try header(key, info) { present.append((key, header)) }
    }
    guard !present.isEmpty else { return 0 }
    try willRemove(present, info)
    for (key, header) in present {
      try pending.delete(key, in: info.objects)
      if header.hasMetadata { try pending.delete(key, in: info.metadata) }
      changes.note(.removed, key, info)
    }
    addRows(-present.count, to: info)
    try didRemove(present, info)
    return present.count
  }

  private func checkSize(
    _ row: [UInt8], _ metadata: [UInt8]?, _ key: [UInt8], _ info: CollectionInfo
  ) throws {
    let size = max(row.count, metadata?.count ?? 0)
    guard size <= database.limits.valueSize else {
      throw DatabaseError(
        .valueTooLong, "object or metadata takes \(size) bytes, and the storage takes \(database.limits.valueSize)"
      ).about(info.key(of: key))
    }
    guard pending.byteCount + row.count + (metadata?.count ?? 0) <= database.limits.batchSize else {
      throw DatabaseError(
        .batchTooLarge, "with it the transaction takes more than the \(database.limits.batchSize) bytes of a commit"
      ).about(info.key(of: key))
    }
  }
}

/// The metadata of a row that is written.
struct EncodedMetadata {
  /// As they stand in their family.
  let bytes: [UInt8]
  /// For hooks; nil where nobody hears.
  var value: Any?
}

extension RowHeader {
  /// A row with this header.
  func row(_ object: RawSpan) -> [UInt8] {
    var row: [UInt8] = []
    row.reserveCapacity(Self.sizeMaximum + object.byteCount)
    append(to: &row)
    row.append(object)
    return row
  }
}
