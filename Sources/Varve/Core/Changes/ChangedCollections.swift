/// The collections that a transaction has changed, by their numbers.
///
/// Nearly every transaction changes one or two collections, which are found by a linear search. If there are many, a
/// dictionary is used. A collection whose changes were all undone keeps its empty entry.
struct ChangedCollections {
  private var list: [CollectionChanges] = []
  /// The index of each collection in the list, once there are more than `searchedMaximum`.
  private var indexes: [UInt32: Int] = [:]
  /// The index of the collection that was looked up last.
  private var last = 0

  private static let searchedMaximum = 8

  /// Whether no collection is changed. Complexity: O(collections).
  var isEmpty: Bool { list.allSatisfy(\.isEmpty) }

  /// The changed collections, in the order of their numbers.
  var ordered: [CollectionChanges] {
    if list.count == 1 { return isEmpty ? [] : list }
    return list.filter { !$0.isEmpty }.sorted { $0.info.record.id < $1.info.record.id }
  }

  /// Returns the changes of a collection, or `nil` if it was never changed.
  func find(_ id: UInt32) -> CollectionChanges? { index(of: id).map { list[$0] } }

  /// Updates the recorded changes of a collection.
  @inline(__always) @discardableResult
  mutating func change<Result>(_ info: CollectionInfo, _ body: (inout CollectionChanges) -> Result) -> Result {
    last = index(of: info.record.id) ?? add(info)
    return body(&list[last])
  }

  /// Updates the recorded changes of a collection that was changed before.
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

/// The changes of a transaction in one collection.
struct CollectionChanges {
  let info: CollectionInfo
  let isCleared: Bool
  /// The states of the changed rows, by the key in the collection's families.
  private(set) var rows = ByteTable<RowState>()

  init(_ info: CollectionInfo, isCleared: Bool = false) {
    self.info = info
    self.isCleared = isCleared
  }

  var isEmpty: Bool { rows.isEmpty && !isCleared }

  /// Records a change of a row. Returns the row's previous state, and the index of its entry.
  mutating func note(_ change: RowChange.Event, _ key: [UInt8]) -> (previous: RowState?, index: Int) {
    rows.update(key) { RowState(change, before: $0) }
  }

  mutating func restore(_ index: Int, _ previous: RowState?) { rows.setValue(previous, at: index) }
}
