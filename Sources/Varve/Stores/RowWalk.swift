/// A walk over rows: a value, so that a copy of one that has not begun goes the same way again.
protocol RowWalk<Element>: Sendable {
  associatedtype Element: Sendable
  /// The next row and about how many bytes it took; nil behind the last.
  mutating func next() throws -> (element: Element, byteCount: Int)?
}

/// Which rows a walk goes over.
struct WalkRange: Sendable {
  private let bounds: @Sendable (CollectionInfo, _ keyLimit: Int) throws -> StorageRange

  /// The rows of a range of keys.
  init<Key: KeyCodable>(_ range: some KeyBounds<Key> & Sendable) {
    bounds = { info, limit in try info.storageRange(range, limit: limit) }
  }

  private init(bounds: @escaping @Sendable (CollectionInfo, Int) throws -> StorageRange) { self.bounds = bounds }

  /// All rows.
  static let all = WalkRange { info, _ in info.range }

  func storage(_ info: CollectionInfo, _ keyLimit: Int) throws -> StorageRange { try bounds(info, keyLimit) }
}

/// Which rows, in which direction, and how many of them.
struct WalkTerms: Sendable {
  var range: WalkRange
  var isDescending: Bool
  var limit: Int?

  /// Throws `.invalidArgument`.
  func check() throws {
    if let limit, limit < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a walk is \(limit); it must not be negative")
    }
  }
}

extension RowDoor {
  /// A walk over instances as the transaction sees them now.
  func walk(_ terms: WalkTerms, _ tx: ReadTransaction) throws -> any RowWalk<Kind.Instance> {
    try terms.check()
    guard let info = try collection(tx) else { return EmptyWalk<Kind.Instance>() }
    return try InstanceWalk(self, info, terms, tx)
  }

  func cursor(_ terms: WalkTerms, _ tx: ReadTransaction) throws -> StoreCursor<Kind.Instance> {
    StoreCursor(tx, try walk(terms, tx))
  }

  /// All instances of a range, at once.
  func all(_ terms: WalkTerms, _ tx: ReadTransaction) throws -> [Kind.Instance] { try Array(try cursor(terms, tx)) }
}

extension RowDoor {
  /// A walk over identifiers: the rows behind them are not read.
  func identifierWalk(_ terms: WalkTerms, _ tx: ReadTransaction) throws -> any RowWalk<Kind.Identifier> {
    try terms.check()
    guard let info = try collection(tx) else { return EmptyWalk<Kind.Identifier>() }
    let range = try terms.range.storage(info, core.limits.keySize)
    return IdentifierWalk(
      info: info, keys: tx.cursor(range, in: info.objects, isReverse: terms.isDescending, keysOnly: true),
      remaining: terms.limit ?? .max)
  }
}

/// The identifiers of a range.
private struct IdentifierWalk<Identifier: KeyCodable>: RowWalk {
  let info: CollectionInfo
  var keys: FamilyCursor
  var remaining: Int

  mutating func next() throws -> (element: Identifier, byteCount: Int)? {
    guard remaining > 0, let key = try keys.nextKey() else { return nil }
    remaining -= 1
    return (try info.key(of: key).key(), key.count)
  }
}

/// Of a collection that was never made.
struct EmptyWalk<Element: Sendable>: RowWalk {
  mutating func next() -> (element: Element, byteCount: Int)? { nil }
}

/// The rows of a range as instances. Where instances have their metadata, its family is walked beside.
struct InstanceWalk<Kind: RowKind>: RowWalk {
  private let door: RowDoor<Kind>
  private let info: CollectionInfo
  private var objects: FamilyCursor
  private var metadata: MetadataWalk?
  private var remaining: Int

  init(_ door: RowDoor<Kind>, _ info: CollectionInfo, _ terms: WalkTerms, _ tx: ReadTransaction) throws {
    self.door = door
    self.info = info
    let range = try terms.range.storage(info, door.core.limits.keySize)
    objects = tx.cursor(range, in: info.objects, isReverse: terms.isDescending)
    if Kind.readsMetadata {
      metadata = MetadataWalk(
        tx.cursor(range, in: info.metadata, isReverse: terms.isDescending), isReverse: terms.isDescending)
    }
    remaining = terms.limit ?? .max
  }

  mutating func next() throws -> (element: Kind.Instance, byteCount: Int)? {
    guard remaining > 0, let (key, bytes) = try objects.next() else { return nil }
    remaining -= 1
    let row: StoredRow
    do {
      row = try StoredRow(key: key, bytes: bytes, info: info)
    } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    let instance = try door.instance(row) { try metadata?.value(of: key) }
    return (instance, key.count + bytes.count)
  }
}

/// The metadata of rows that are walked: its family has the same keys, fewer of them, in the same order.
struct MetadataWalk: Sendable {
  private var cursor: FamilyCursor
  private let isReverse: Bool
  private var ahead: (key: [UInt8], value: [UInt8])?

  init(_ cursor: FamilyCursor, isReverse: Bool) {
    self.cursor = cursor
    self.isReverse = isReverse
  }

  /// The metadata of a row; nil where there is none. Keys are asked for in the walk's order.
  mutating func value(of key: [UInt8]) throws -> [UInt8]? {
    while true {
      if ahead == nil { ahead = try cursor.next() }
      guard let ahead else { return nil }
      let order = ByteOrder.compare(ahead.key, key)
      if order == 0 { return ahead.value }
      if isReverse ? order < 0 : order > 0 { return nil }
      self.ahead = nil
    }
  }
}
