/// The collections that a transaction has changed, by their numbers.
///
/// Nearly every transaction changes one collection or two: those are found by looking. One that changes thousands gets a
/// dictionary. A collection whose changes were all undone keeps its entry, with nothing in it.
struct ChangedCollections {
  private var list: [CollectionChanges] = []
  /// The index of each in the list, once there are many.
  private var indexes: [UInt32: Int] = [:]
  /// The index that was asked for last.
  private var last = 0

  private static let searchedMaximum = 8

  /// Whether no collection is changed. Complexity: O(collections).
  var isEmpty: Bool { list.allSatisfy(\.isEmpty) }

  /// Those that are changed, in the order of their numbers.
  var ordered: [CollectionChanges] {
    if list.count == 1 { return isEmpty ? [] : list }
    return list.filter { !$0.isEmpty }.sorted { $0.info.record.id < $1.info.record.id }
  }

  /// What was changed in a collection; nil where it was never changed.
  func find(_ id: UInt32) -> CollectionChanges? { index(of: id).map { list[$0] } }

  /// Changes what is noted of a collection.
  @inline(__always) @discardableResult
  mutating func change<Result>(_ info: CollectionInfo, _ body: (inout CollectionChanges) -> Result) -> Result {
    last = index(of: info.record.id) ?? add(info)
    return body(&list[last])
  }

  /// Changes what is noted of a collection that was changed before.
  mutating func change(_ id: UInt32, _ body: (inout CollectionChanges) -> Void) {
    if let index = index(of: id) { body(&list[index]) }
  }

  @inline(__always)
  private func index(of id: UInt32) -> Int? {
    if last < list.count, list[last].info.record.id == id { return last }
    if list.count <= Self.searchedMaximum { return list.firstIndex { $0.info.record.id == id } }
    return indexes[id]
  }

  private mutating func add(_ info: CollectionInfo) -> Int {
    list.append(CollectionChanges(info))
    if list.count == Self.searchedMaximum + 1 {
      for (index, changes) in list.enumerated() { indexes[changes.info.record.id] = index }
    } else if list.count > Self.searchedMaximum {
      indexes[info.record.id] = list.count - 1
    }
    return list.count - 1
  }
}

/// What a transaction has changed in one collection.
struct CollectionChanges {
  let info: CollectionInfo
  let isCleared: Bool
  /// By the key in the collection's families.
  private(set) var rows = ByteTable<RowState>()

  init(_ info: CollectionInfo, isCleared: Bool = false) {
    self.info = info
    self.isCleared = isCleared
  }

  var isEmpty: Bool { rows.isEmpty && !isCleared }

  /// Returns what was noted of the row before, and the index of its entry.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8]) -> (previous: RowState?, index: Int) {
    rows.update(key) { RowState(change, before: $0) }
  }

  mutating func restore(_ index: Int, _ previous: RowState?) { rows.setValue(previous, at: index) }
}
