/// Changing rows: the API for callers that name the collection and the type in each call. Every other API calls this
/// one, so that every extension receives every change.
///
/// No call replaces the object or the metadata of a row whose version is unknown to the collection's definition because
/// a newer program has written it: the calls throw `.unsupportedVersion`. Such a row can be removed by every call that
/// removes rows.
extension WriteTransaction {
  /// Sets the object of a row, which is inserted if there is none. The row then has no metadata.
  ///
  /// Throws `.encodingFailed`, `.keyTypeDiffers`, `.keyTooLong`, `.valueTooLong`, `.unsupportedVersion` if a newer
  /// program has written the row, and what a hook throws; no row has changed in that case. The first `set` into a
  /// collection without a definition makes the collection, for keys of this type; it stays even if the transaction is
  /// rolled back.
  public func set<Object: Encodable>(_ object: Object, key: some KeyCodable, in collection: String) throws {
    let (info, key) = try location(key, collection)
    try set(object, key, info, over: try present(key, info))
  }

  /// Sets the object and the metadata of a row, which is inserted if there is none. If `metadata` is `nil`, the row
  /// then has no metadata. Throws as the form without metadata does.
  public func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, key: some KeyCodable, in collection: String, metadata: Metadata?
  ) throws {
    let (info, key) = try location(key, collection)
    try set(object, metadata, key, info)
  }

  /// Sets the object of an existing row, and keeps its metadata. Returns false if there is no row. Throws as `set`
  /// does.
  @discardableResult
  public func replaceObject<Object: Encodable>(
    _ object: Object, key: some KeyCodable, in collection: String
  ) throws -> Bool {
    guard let (info, key) = try existingLocation(key, collection) else { return false }
    return try replaceObject(object, key, info)
  }

  /// Sets the metadata of an existing row, or removes them if `metadata` is `nil`, and keeps its object. Returns false
  /// if there is no row. Throws as `set` does.
  @discardableResult
  public func replaceMetadata<Metadata: Encodable>(
    _ metadata: Metadata?, key: some KeyCodable, in collection: String
  ) throws -> Bool {
    guard let (info, key) = try existingLocation(key, collection) else { return false }
    return try replaceMetadata(metadata, key, info)
  }

  /// Removes the metadata of a row, and keeps its object. Returns false if there is no row. Throws as `set` does.
  @discardableResult
  public func removeMetadata(key: some KeyCodable, in collection: String) throws -> Bool {
    try replaceMetadata(Bool?.none, key: key, in: collection)
  }

  /// Notifies extensions and observers of a change to the object of a row that the row itself doesn't show. Nothing is
  /// written. Returns false if there is no row.
  @discardableResult
  public func touchObject(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .objectTouched)
  }

  /// Notifies extensions and observers of a change to the metadata of a row that the row itself doesn't show. Nothing
  /// is written. Returns false if there is no row.
  @discardableResult
  public func touchMetadata(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .metadataTouched)
  }

  /// Notifies extensions and observers of a change to the object and the metadata of a row that the row itself doesn't
  /// show. Nothing is written. Returns false if there is no row.
  @discardableResult
  public func touchRow(key: some KeyCodable, in collection: String) throws -> Bool {
    try touch(key, collection, .rowTouched)
  }

  /// Removes a row, whatever version has written it. Returns false if there is none.
  @discardableResult
  public func remove(key: some KeyCodable, in collection: String) throws -> Bool {
    guard let (info, key) = try existingLocation(key, collection) else { return false }
    return try remove([key], info) == 1
  }

  /// Removes the rows of several keys. Returns the number of rows that existed.
  @discardableResult
  public func remove<Key: KeyCodable>(keys: some Sequence<Key>, in collection: String) throws -> Int {
    guard let info = try info(collection) else { return 0 }
    return try remove(try keys.map { try info.storageKey($0, limit: database.limits.keySize) }, info)
  }

  // MARK: - Location

  /// Returns the collection, which is made if there is none, and the key in its families.
  func location<Key: KeyCodable>(_ key: Key, _ collection: String) throws -> (CollectionInfo, [UInt8]) {
    let info =
      try knownInfo(collection)
      ?? database.makeCollection(collection, keyType: Key.keyType.description)
    return (info, try info.storageKey(key, limit: database.limits.keySize))
  }

  /// Returns the collection and the key in its families for changes of existing rows, or `nil` if there is no such
  /// collection.
  private func existingLocation(_ key: some KeyCodable, _ collection: String) throws -> (CollectionInfo, [UInt8])? {
    guard let info = try info(collection) else { return nil }
    return (info, try info.storageKey(key, limit: database.limits.keySize))
  }

  /// Returns the row that a change will find, or `nil` if there is none. Its bytes are read if a hook or an observer
  /// needs them.
  func present(_ key: [UInt8], _ info: CollectionInfo) throws -> PresentRow? {
    guard needsBytes(of: info) else {
      return try header(key, info).map { PresentRow(header: $0) }
    }
    guard let bytes = try value(of: key, in: info.objects) else { return nil }
    return PresentRow(header: try unsafe RowHeader.read(bytes.span.bytes).header, bytes: bytes)
  }

  /// Notes a row that is about to be changed, unless this transaction has changed it before.
  @inline(__always)
  func noteReplaced(_ row: PresentRow?, _ key: [UInt8], _ info: CollectionInfo) {
    if let replacedRows, let row, !row.bytes.isEmpty { noteReplaced(row.bytes, key, info, in: replacedRows) }
  }

  /// Returns whether this transaction has changed a row.
  func hasChanged(_ key: [UInt8], _ info: CollectionInfo) -> Bool {
    changes.collections.find(info.record.id)?.rows[key] != nil
  }

  @inline(never)
  private func noteReplaced(_ row: [UInt8], _ key: [UInt8], _ info: CollectionInfo, in rows: ReplacedRows) {
    guard rows.isObserved(info), !hasChanged(key, info) else { return }
    rows.note(row, key, info)
  }

  /// Returns the rows that a change of many rows will find. If a hook needs their bytes, those that the transaction has
  /// not written are read at once.
  func present(_ keys: [[UInt8]], _ info: CollectionInfo) throws -> [PresentRow?] {
    guard keys.count > 1, needsOldRows(info), replacedRows?.isObserved(info) != true else {
      return try keys.map { try present($0, info) }
    }
    let isOwn = keys.map { pending.decides($0, in: info.objects) }
    let others = zip(keys, isOwn).filter { !$1 }.map(\.0)
    if reads != nil { for key in others { reads?.keys.append((info.objects, key)) } }
    var stored = try snapshot.values(of: others, in: info.objects)[...]
    return try zip(keys, isOwn).map { key, isOwn in
      guard let bytes = try isOwn ? value(of: key, in: info.objects) : stored.removeFirst() else { return nil }
      return PresentRow(header: try unsafe RowHeader.read(bytes.span.bytes).header, bytes: bytes)
    }
  }

  /// Returns whether a hook or an observer needs the bytes of changed rows.
  func needsBytes(of info: CollectionInfo) -> Bool {
    needsOldRows(info) || replacedRows?.isObserved(info) == true
  }

  @inline(__always)
  private func needsOldRows(_ info: CollectionInfo) -> Bool {
    hooks.hasSlots && !plan(for: info).oldEvents.isEmpty
  }

  // MARK: - Versions

  /// Throws `.unsupportedVersion` if a newer program has written the row, or the metadata that must be replaced. A
  /// program that has not defined the collection knows no version: it would write a row without one, which a reader
  /// takes for the first. `namesVersions` says that the new row names its version itself, as an import does.
  @inline(__always)
  func requireReplaceable(
    _ old: PresentRow?, _ key: [UInt8], _ info: CollectionInfo, keepsMetadata: Bool = false,
    namesVersions: Bool = false
  ) throws {
    guard let old = old?.header, info.reading.isDefined || !namesVersions else { return }
    let mayBeNewer = !keepsMetadata && old.hasMetadata && info.hasForeignVersions
    guard old.version != info.versions.current || mayBeNewer else { return }
    try requireKnownVersions(old, key, info, metadata: mayBeNewer)
  }

  @inline(never)
  private func requireKnownVersions(
    _ old: RowHeader, _ key: [UInt8], _ info: CollectionInfo, metadata: Bool
  ) throws {
    do {
      try info.requireKnownVersion(old.version)
      guard metadata, let bytes = try value(of: key, in: info.metadata) else { return }
      try info.requireKnownVersion(unsafe RowHeader.readMetadata(bytes.span.bytes).version)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
  }

  // MARK: - The operations

  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo
  ) throws {
    try set(object, metadata, key, info, over: try present(key, info))
  }

  /// Sets the object and the metadata of a row whose previous state is known.
  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow?
  ) throws {
    if info.reading.sanitizes {
      return try setSanitized(object, key, info, over: old) { _ in try metadata.map { try encoded($0, key, info) } }
    }
    try put(object, try metadata.map { try encoded($0, key, info) }, key, info, over: old)
  }

  /// Sets an object together with metadata that are a property of the object. If the definition has a rule for objects,
  /// the metadata are those of the object that the rule returns.
  func set<Object: Encodable, Metadata: Encodable>(
    _ object: Object, metadataAt path: any KeyPath<Object, Metadata?> & Sendable, _ key: [UInt8],
    _ info: CollectionInfo, over old: PresentRow?
  ) throws {
    guard info.reading.sanitizes else {
      return try set(object, object[keyPath: path], key, info, over: old)
    }
    try setSanitized(object, key, info, over: old) { object in
      try object[keyPath: path].map { try encoded($0, key, info) }
    }
  }

  /// Sets an object without metadata. This path makes no optional of a generic type, because that type is looked up at
  /// each use.
  func set<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow?
  ) throws {
    if info.reading.sanitizes { return try setSanitized(object, key, info, over: old) { _ in nil } }
    try put(object, nil, key, info, over: old)
  }

  /// Encodes metadata for their family, and keeps the value for hooks if an extension is registered.
  private func encoded<Metadata: Encodable>(
    _ metadata: Metadata, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> EncodedMetadata {
    EncodedMetadata(
      bytes: try database.coding.encodeMetadata(metadata, key, info), value: registered.isEmpty ? nil : metadata)
  }

  /// Applies the definition's rule and sets the resulting object. The metadata are encoded only if there is such an
  /// object.
  @inline(never)
  private func setSanitized<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow?,
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
    _ object: Object, _ metadata: EncodedMetadata?, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow?
  ) throws {
    var header = RowHeader(hasMetadata: metadata != nil)
    header.id = try old?.header.id ?? database.catalog.nextRowID()
    let row = try database.coding.encodeRow(object, key, info, &header)
    try requireReplaceable(old, key, info)
    try requireRowsWritable()
    noteReplaced(old, key, info)
    let event: RowChange.Event = old == nil ? .inserted : .updated
    if let plan = plan(for: event, info) {
      let facts = try self.facts(event, key, info, id: header.id, bytes: row, metadata, old: old, plan)
      try facts.withObject(object) { try write(event, row, metadata?.bytes, key, info, old, facts, plan) }
    } else {
      try write(row, metadata?.bytes, key, info, old?.header)
      changes.note(event, key, info)
    }
    info.didSet(object)
  }

  /// Writes a row given as bytes, over the row `old` if there is one. `object` is for hooks.
  func put(
    _ row: [UInt8], id: RowID, of object: Any?, _ metadata: EncodedMetadata?, _ key: [UInt8], _ info: CollectionInfo,
    over old: PresentRow?, namesVersions: Bool = false
  ) throws {
    try requireReplaceable(old, key, info, namesVersions: namesVersions)
    try requireRowsWritable()
    noteReplaced(old, key, info)
    let event: RowChange.Event = old == nil ? .inserted : .updated
    guard let plan = plan(for: event, info) else {
      try write(row, metadata?.bytes, key, info, old?.header)
      return changes.note(event, key, info)
    }
    let facts = try self.facts(event, key, info, id: id, bytes: row, metadata, old: old, plan)
    facts.setObject(object)
    try write(event, row, metadata?.bytes, key, info, old, facts, plan)
  }

  /// Writes a row whose change extensions receive.
  private func write(
    _ event: RowChange.Event, _ row: [UInt8], _ metadata: [UInt8]?, _ key: [UInt8], _ info: CollectionInfo,
    _ old: PresentRow?, _ facts: ChangeFacts, _ plan: HookPlan
  ) throws {
    try ask(facts, plan)
    try write(row, metadata, key, info, old?.header)
    changes.note(event, key, info)
    try notify(facts, plan)
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
    guard let old = try present(key, info) else { return false }
    try replaceObject(object, key, info, over: old)
    return true
  }

  /// Replaces the object of a row whose previous state is known.
  func replaceObject<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow
  ) throws {
    if info.reading.sanitizes { return try replaceSanitized(object, key, info, over: old) }
    try replace(object, key, info, over: old)
  }

  @inline(never)
  private func replaceSanitized<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow
  ) throws {
    try requireReplaceable(old, key, info, keepsMetadata: true)
    if let object = try info.sanitized(object) {
      try replace(object, key, info, over: old)
    } else {
      _ = try remove([key], info)
    }
  }

  private func replace<Object: Encodable>(
    _ object: Object, _ key: [UInt8], _ info: CollectionInfo, over old: PresentRow
  ) throws {
    try requireReplaceable(old, key, info, keepsMetadata: true)
    try requireRowsWritable()
    noteReplaced(old, key, info)
    var header = old.header
    let row = try database.coding.encodeRow(object, key, info, &header)
    guard let plan = plan(for: .objectReplaced, info) else {
      try checkSize(row, nil, key, info)
      try pending.put(key, row, in: info.objects)
      changes.note(.objectReplaced, key, info)
      return info.didSet(object)
    }
    let metadata = header.hasMetadata ? try ownMetadata(key, info).map { EncodedMetadata(bytes: $0) } : nil
    let facts = try self.facts(.objectReplaced, key, info, id: header.id, bytes: row, metadata, old: old, plan)
    try facts.withObject(object) {
      try ask(facts, plan)
      try checkSize(row, nil, key, info)
      try pending.put(key, row, in: info.objects)
      changes.note(.objectReplaced, key, info)
      try notify(facts, plan)
    }
    info.didSet(object)
  }

  func replaceMetadata<Metadata: Encodable>(
    _ metadata: Metadata?, _ key: [UInt8], _ info: CollectionInfo
  ) throws -> Bool {
    guard let bytes = try value(of: key, in: info.objects) else { return false }
    let stored = try stored(key, bytes, info)
    let old = PresentRow(header: stored.header, bytes: bytes)
    noteReplaced(old, key, info)
    try requireReplaceable(old, key, info)
    try requireRowsWritable()
    let metadata = try metadata.map { try encoded($0, key, info) }
    var header = stored.header
    header.hasMetadata = metadata != nil
    let row = unsafe header.row(bytes.span.bytes.extracting(stored.objectOffset..<bytes.count))
    let plan = plan(for: .metadataReplaced, info)
    let facts = try plan.map { plan in
      try self.facts(.metadataReplaced, key, info, id: header.id, bytes: row, metadata, old: old, plan)
    }
    if let facts, let plan { try ask(facts, plan) }
    try checkSize([], metadata?.bytes, key, info)
    if header != stored.header { try pending.put(key, row, in: info.objects) }
    if let metadata {
      try pending.put(key, metadata.bytes, in: info.metadata)
    } else if stored.header.hasMetadata {
      try pending.delete(key, in: info.metadata)
    }
    changes.note(.metadataReplaced, key, info)
    if let facts, let plan { try notify(facts, plan) }
    return true
  }

  private func touch(_ key: some KeyCodable, _ collection: String, _ event: RowChange.Event) throws -> Bool {
    guard let (info, key) = try existingLocation(key, collection) else { return false }
    return try touch(key, info, event)
  }

  func touch(_ key: [UInt8], _ info: CollectionInfo, _ event: RowChange.Event) throws -> Bool {
    guard let bytes = try value(of: key, in: info.objects) else { return false }
    try requireRowsWritable()
    let header = try unsafe RowHeader.read(bytes.span.bytes).header
    let old = PresentRow(header: header, bytes: bytes)
    noteReplaced(old, key, info)
    guard let plan = plan(for: event, info) else {
      changes.note(event, key, info)
      return true
    }
    let metadata = header.hasMetadata ? try ownMetadata(key, info).map { EncodedMetadata(bytes: $0) } : nil
    let facts = try self.facts(event, key, info, id: header.id, bytes: bytes, metadata, old: old, plan)
    changes.note(event, key, info)
    try notify(facts, plan)
    return true
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
      throw tooLarge("this row").about(info.key(of: key))
    }
  }

  /// The error for a change that would exceed the size of a transaction.
  func tooLarge(_ what: String) -> DatabaseError {
    // Extensions may have written most of it.
    let (count, limit) = (changes.changeCount, database.limits.batchSize)
    let (rows, calls) =
      count == 0
      ? ("", "")
      : (
        " after \(count) changes of rows",
        ": `insert(bulk:)` commits in pieces, and `delete(inBatchesOf:)` and `update(inBatchesOf:)` in batches"
      )
    let text = "with \(what) the transaction takes more than \(limit) bytes (`transactionBytes`)\(rows)"
    return DatabaseError(.batchTooLarge, "\(text); split it into several transactions\(calls)")
  }
}

extension RowHeader {
  /// Returns a row with this header and an object.
  func row(_ object: RawSpan) -> [UInt8] {
    var row: [UInt8] = []
    row.reserveCapacity(Self.sizeMaximum + object.byteCount)
    append(to: &row)
    row.append(object)
    return row
  }
}
