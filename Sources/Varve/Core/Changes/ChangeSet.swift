public import Foundation

/// What one commit changed: made at the commit, sent to observers after it, the same for all.
///
/// A row that was set and removed again in one transaction is among the removed; one that was removed and set
/// again among the changed. After all rows of a collection were removed, those that were set after that are
/// among the inserted, and the collection among the cleared: who follows along takes away first, and then adds.
///
/// A value that is shared, not copied: however many subscriptions get it, its rows are in memory once. Safe from any
/// thread.
public struct ChangeSet: Sendable {
  private let content: Content

  private final class Content: Sendable {
    let version: CommitVersion
    let time: Int64
    let label: String?
    let isEverythingCleared: Bool
    let isFromFeed: Bool
    let collections: [String: Rows]
    let rowCount: Int
    let byteCount: Int
    let custom: StoredCustom?
    let extensions: ExtensionReports
    let parts: PartWrites.Noted?

    /// Of a change set without rows, and of a collection in it, its name included.
    private static let fixedByteCount = 256
    private static let collectionByteCount = 192

    init(
      version: CommitVersion, time: Int64, label: String?, isEverythingCleared: Bool, isFromFeed: Bool,
      collections: [String: Rows], custom: StoredCustom?, extensions: ExtensionReports, parts: PartWrites.Noted?
    ) {
      self.version = version
      self.time = time
      self.label = label
      self.isEverythingCleared = isEverythingCleared
      self.isFromFeed = isFromFeed
      self.collections = collections
      self.custom = custom
      self.extensions = extensions
      self.parts = parts
      rowCount = collections.values.reduce(0) { $0 + $1.states.count }
      let rows = collections.reduce(Self.fixedByteCount) { $0 + Self.collectionByteCount + $1.value.byteCount }
      byteCount =
        rows + extensions.byteCount(rows: rows) + (custom?.bytes.count ?? 0) + (label?.utf8.count ?? 0)
        + (parts?.byteCount ?? 0)
    }
  }

  /// The rows of one collection.
  struct Rows: Sendable {
    var isCleared = false
    /// What the keys below begin with, and keys of the program don't: so what the transaction noted is taken over
    /// as it is.
    var prefix: [UInt8] = []
    var states = ByteTable<RowState>()
    /// Of a collection whose rows observers compared when the transaction began: what it replaced, by the same keys.
    var replaced: ByteTable<[UInt8]>?

    func state(_ key: [UInt8]) -> RowState? { states[storedKey(key)] }
    func key(_ stored: [UInt8]) -> [UInt8] { prefix.isEmpty ? stored : Array(stored.dropFirst(prefix.count)) }
    func storedKey(_ key: [UInt8]) -> [UInt8] { prefix.isEmpty ? key : prefix + key }

    /// What an observer gets of a row.
    func observed(_ key: [UInt8]) -> ObservedChange.Row {
      let stored = storedKey(key)
      return ObservedChange.Row(isRemoved: states[stored]?.isRemoved ?? false, before: replaced?[stored])
    }

    fileprivate var byteCount: Int {
      guard let replaced else { return states.byteCount }
      return replaced.indices.reduce(states.byteCount + replaced.byteCount) {
        $0 + (replaced.value(at: $1)?.count ?? 0)
      }
    }
  }

  /// An object of the program's, encoded.
  struct StoredCustom: Sendable {
    let bytes: [UInt8]
    let coding: ObjectCoding
  }

  init(
    version: CommitVersion, time: Int64, label: String?, isEverythingCleared: Bool, isFromFeed: Bool,
    collections: [String: Rows], custom: StoredCustom?, extensions: ExtensionReports, parts: PartWrites.Noted? = nil
  ) {
    content = Content(
      version: version, time: time, label: label, isEverythingCleared: isEverythingCleared, isFromFeed: isFromFeed,
      collections: collections, custom: custom, extensions: extensions, parts: parts)
  }

  /// What was written to parts that were observed when its transaction began; nil: none was, or that is not known.
  var parts: PartWrites.Noted? { content.parts }

  // MARK: - The commit

  /// The position of the commit in the order of all commits: where a subscription resumes that has dealt with this.
  public var version: CommitVersion { content.version }

  /// When it was committed, by the clock of the process that did, in whole seconds.
  public var date: Date { Date(timeIntervalSince1970: Double(content.time)) }

  /// What the transaction was called.
  public var label: String? { content.label }

  /// Whether all rows of all collections were removed.
  public var isEverythingCleared: Bool { content.isEverythingCleared }

  /// Whether it was read from the feed: late, after a restart, or in another process. It has everything then but
  /// the changes of extensions.
  public var isFromFeed: Bool { content.isFromFeed }

  /// The object that the transaction gave it; nil where it gave none. Throws `.decodingFailed`.
  public func customObject<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object? {
    try content.custom.map { try $0.coding.decodeStandalone(type, $0.bytes) }
  }

  // MARK: - Extensions

  /// The names of the extensions that reported changes of their own, in order. Empty where that is not known
  /// (`changes(of:)`).
  public var changedExtensions: [String] { content.extensions.byName.keys.sorted() }

  /// What the commit means for an extension, as that says. `.reload` where it is not known: for a change set that was read
  /// from the feed, for one of a commit that was not observed when it was made, and for a handle of another type.
  public func changes<Definition: DatabaseExtension>(
    of handle: ExtensionHandle<Definition>
  ) -> ExtensionChanges<Definition.Changes> {
    content.extensions.changes(of: handle)
  }

  // MARK: - Inside

  /// By name.
  var collections: [String: Rows] { content.collections }
  /// How many rows it names.
  var rowCount: Int { content.rowCount }
  /// The memory that it takes, to within what allocators round up. Complexity: O(1), counted when it was made.
  var byteCount: Int { content.byteCount }
}
