public import Foundation

/// The changes of one commit. It is made at the commit, sent to observers after it, and the same for all of them.
///
/// A row that was set and removed again in one transaction counts as removed; one that was removed and set again counts
/// as changed. If all rows of a collection were removed, rows that were set after that count as inserted, and the
/// collection counts as cleared: a consumer that maintains derived data first removes, and then adds.
///
/// It is a value whose content is shared instead of copied: its rows are in memory once, however many subscriptions
/// receive it. It is safe to use from any thread.
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

    /// The sizes of a change set without rows, and of a collection in it, including its name.
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
    /// The prefix with which the keys below begin, and the program's keys don't, so that the rows which the transaction
    /// has recorded can be used as they are.
    var prefix: [UInt8] = []
    var states = ByteTable<RowState>()
    /// The replaced rows, by the same keys, if observers compared the collection's rows when the transaction began.
    var replaced: ByteTable<[UInt8]>?

    func state(_ key: [UInt8]) -> RowState? { states[storedKey(key)] }
    func key(_ stored: [UInt8]) -> [UInt8] { prefix.isEmpty ? stored : Array(stored.dropFirst(prefix.count)) }
    func storedKey(_ key: [UInt8]) -> [UInt8] { prefix.isEmpty ? key : prefix + key }

    fileprivate var byteCount: Int {
      guard let replaced else { return states.byteCount }
      return replaced.indices.reduce(states.byteCount + replaced.byteCount) {
        $0 + (replaced.value(at: $1)?.count ?? 0)
      }
    }
  }

  /// An encoded object of the program.
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

  /// The writes to parts that were observed when the transaction began, or `nil` if none was observed or the writes are
  /// not known.
  var parts: PartWrites.Noted? { content.parts }
  /// The extensions that the transaction has used: see `ExtensionReports.used`.
  var usedExtensions: Set<String> { content.extensions.used }

  // MARK: - The commit

  /// The position of the commit in the order of all commits, from which a subscription resumes once this change set is
  /// processed.
  public var version: CommitVersion { content.version }

  /// The time of the commit, by the clock of the committing process, in whole seconds.
  public var date: Date { Date(timeIntervalSince1970: Double(content.time)) }

  /// The label of the transaction.
  public var label: String? { content.label }

  /// A Boolean value that indicates whether all rows of all collections were removed.
  public var isEverythingCleared: Bool { content.isEverythingCleared }

  /// A Boolean value that indicates whether the change set was read from the feed: late, after a restart, or in another
  /// process. It then contains everything except the changes of extensions.
  public var isFromFeed: Bool { content.isFromFeed }

  /// Returns the custom object that the transaction has set, or `nil` if it has set none. Throws `.decodingFailed`.
  public func customObject<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object? {
    try content.custom.map { try $0.coding.decodeStandalone(type, $0.bytes) }
  }

  // MARK: - Extensions

  /// The names of the extensions that reported changes of their own, in ascending order. It is empty if they are not
  /// known (`changes(of:)`).
  public var changedExtensions: [String] { content.extensions.byName.keys.sorted() }

  /// Returns the changes that an extension has reported for the commit.
  ///
  /// The result is `.reload` if they are not known: for a change set that was read from the feed, for one of a commit
  /// that was not observed when it was made, and for a handle of another type.
  public func changes<Definition: DatabaseExtension>(
    of handle: ExtensionHandle<Definition>
  ) -> ExtensionChanges<Definition.Changes> {
    content.extensions.changes(of: handle)
  }

  // MARK: - Inside

  /// The changed rows, by the name of the collection.
  var collections: [String: Rows] { content.collections }
  /// The number of rows in the change set.
  var rowCount: Int { content.rowCount }
  /// The memory that the change set takes, in bytes, except for rounding by allocators. Complexity: O(1), because it is
  /// calculated when the change set is made.
  var byteCount: Int { content.byteCount }
}
