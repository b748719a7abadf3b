/// A difference between a row and an index.
public struct IndexDifference: Hashable, Sendable, CustomStringConvertible {
  /// The kind of a difference.
  public enum Kind: String, Hashable, Sendable {
    /// The index lacks an entry for a value of the row.
    case missing
    /// The index has an entry for a value that the row does not have, or for a row that does not exist.
    case stale
    /// A direct index has a different content of the row.
    case content
    /// The emitted values of the row differ from its values.
    case emitted
  }

  /// The kind of the difference.
  public let kind: Kind
  /// The name of the index, or an empty string for `emitted`.
  public let index: String
  /// The row that differs.
  public let row: RowKey
  /// The value, as the tool prints keys.
  public let value: String

  /// A text such as `index "title": missing "Emma" of books/1`.
  public var description: String {
    kind == .emitted ? "emitted values differ of \(row)" : "index \"\(index)\": \(kind.rawValue) \(value) of \(row)"
  }
}

/// Compares indexes with rows: each row's values with the entries, and the entries with their rows.
struct IndexVerification<Instance: Codable & Sendable> {
  private let indexes: IndexesTransaction<Instance>
  private let writer: IndexWriter<Instance>
  private let info: CollectionInfo
  private let transaction: ReadTransaction
  /// The distance between compared rows, and between compared entries.
  private let stride: Int
  private(set) var differences: [IndexDifference] = []

  /// The maximum number of differences, at which the comparison ends.
  static var differencesMaximum: Int { 1_000 }

  /// Prepares a comparison. `sample` is the approximate number of rows to compare, or nil for all.
  init(
    _ indexes: IndexesTransaction<Instance>, _ info: CollectionInfo, sample: Int?, in transaction: ReadTransaction
  ) throws {
    self.indexes = indexes
    writer = IndexWriter(indexes)
    self.info = info
    self.transaction = transaction
    let count = try transaction.count(info)
    stride = sample.map { max(1, count / max(1, $0)) } ?? 1
  }

  /// Compares rows and entries. Complexity: O(n) in the rows and entries, or in those of the sample for reads; the keys
  /// in between are skipped.
  mutating func run() throws {
    let slots = try indexes.definition.indexes.indices.filter { try indexes.part($0).isReady }
    try compareRows(slots)
    for slot in slots { try compareEntries(of: slot) }
  }

  private var isFull: Bool { differences.count >= Self.differencesMaximum }

  private mutating func note(_ kind: IndexDifference.Kind, _ slot: Int?, _ row: [UInt8], _ value: [UInt8]) {
    if isFull { return }
    differences.append(
      IndexDifference(
        kind: kind, index: slot.map { indexes.definition.indexes[$0].name } ?? "",
        row: RowKey(collection: info.name, bytes: row), value: KeyText.text(of: value)))
  }

  private mutating func compareRows(_ slots: [Int]) throws {
    var rows = transaction.cursor(info.range, in: info.objects)
    var position = 0
    while !isFull, let (key, bytes) = try rows.next() {
      position += 1
      if position % stride != 0 { continue }
      let rowKey = Array(key.dropFirst(info.prefix.count))
      let keys = try writer.values(of: Row(try transaction.stored(key, bytes, info), in: transaction), rowKey)
      for value in keys.keys where slots.contains(value.index) {
        var entry = keys.bytes(value)
        IndexEntry.append(rowKey, to: &entry)
        let content = try indexes.part(value.index).get(entry)
        if content == nil {
          note(.missing, value.index, rowKey, keys.bytes(value))
        } else if indexes.definition.indexes[value.index].declaration.isDirect, content != bytes {
          note(.content, value.index, rowKey, keys.bytes(value))
        }
      }
      if try !writer.hasEmitted(keys, rowKey) { note(.emitted, nil, rowKey, []) }
    }
  }

  private mutating func compareEntries(of slot: Int) throws {
    var entries = try indexes.part(slot).cursor(keysOnly: true)
    var position = 0
    while !isFull, let (entry, _) = try entries.next() {
      position += 1
      if position % stride != 0 { continue }
      let range = try unsafe IndexEntry.rowKey(in: entry.span.bytes)
      let (value, rowKey) = (Array(entry[..<range.lowerBound]), Array(entry[range]))
      let key = info.prefix + rowKey
      guard let bytes = try transaction.value(of: key, in: info.objects) else {
        note(.stale, slot, rowKey, value)
        continue
      }
      let keys = try writer.values(of: Row(try transaction.stored(key, bytes, info), in: transaction), rowKey)
      if !keys.keys.contains(where: { $0.index == slot && keys.bytes($0) == value }) {
        note(.stale, slot, rowKey, value)
      }
    }
  }
}
