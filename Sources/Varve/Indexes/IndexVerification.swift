/// A row and an index that do not agree.
public struct IndexDifference: Hashable, Sendable, CustomStringConvertible {
  /// What is wrong.
  public enum Kind: String, Hashable, Sendable {
    /// The row has a value that the index does not have.
    case missing
    /// The index has an entry for a value that the row does not have, or for a row that is not there.
    case stale
    /// A direct index has another content of the row.
    case content
    /// What the row has emitted is not what it has.
    case emitted
  }

  /// What is wrong.
  public let kind: Kind
  /// The name of the index; of `emitted`, empty.
  public let index: String
  /// Which row it is.
  public let row: RowKey
  /// The value, as the tool prints keys.
  public let value: String

  /// `index "title": missing "Emma" of books/1`.
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
  /// Every so many-th row and entry is compared.
  private let stride: Int
  private(set) var differences: [IndexDifference] = []

  /// So many differences are enough.
  static var differencesMaximum: Int { 1_000 }

  /// Of a sample of about so many rows; nil: of all.
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

  /// Complexity: O(n) of rows and entries, of a sample in reads; the keys between are passed.
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
