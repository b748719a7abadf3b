internal import Varve

/// A difference found by a comparison of indexes, with the bytes needed to repair it.
enum IndexFault {
  /// The row has emitted the value, and the index has no entry. `content` is the content to store with the entry's key.
  case missing(InspectedIndex, row: [UInt8], value: [UInt8], content: [UInt8])
  /// A direct index has content that differs from the row's current content.
  case content(InspectedIndex, row: [UInt8], value: [UInt8], content: [UInt8])
  /// The index has an entry that the row has not emitted.
  case stale(InspectedIndex, entry: [UInt8], row: [UInt8], value: [UInt8])
  /// The index has an entry with invalid bytes.
  case unreadableEntry(InspectedIndex, entry: [UInt8])
  /// The collection has the row, but there is no record of what it has emitted.
  case notEmitted(row: [UInt8])
  /// The emitted values of the row are damaged.
  case unreadableEmitted(row: [UInt8])
  /// There are emitted values of a row that does not exist.
  case withoutRow(row: [UInt8], emitted: [UInt8])
}

/// Compares the rows of a collection, their emitted values, and the entries of its indexes, without their types.
///
/// # Consistency
/// 1. Each row has emitted values, possibly none, and each row with emitted values exists.
/// 2. Each emitted value has an entry, and each entry is an emitted value.
/// 3. A direct index has the current content of the row.
///
/// The comparison does not check whether a row would emit the same values again, because that needs the program's code.
struct IndexComparison {
  let snapshot: any StorageReading
  /// The indexes of one collection, at least one. They share the collection's emitted values.
  let indexes: [InspectedIndex]
  let emitted: StorageFamily?
  /// The collection, or `nil` if no row was ever put into it.
  let collection: InspectedCollection?
  /// A closure called for every row and every entry that was examined.
  let didExamine: () -> Void
  private(set) var rowCount = 0
  private(set) var entryCount = 0

  init(
    _ indexes: [InspectedIndex], _ emitted: StorageFamily?, _ collection: InspectedCollection?,
    in snapshot: any StorageReading, didExamine: @escaping () -> Void = {}
  ) {
    self.snapshot = snapshot
    self.indexes = indexes
    self.emitted = emitted
    self.collection = collection
    self.didExamine = didExamine
  }

  /// Compares rows with emitted values and, if `comparesEntries` is true, emitted values with entries.
  ///
  /// Complexity: O(rows), with a read for each value.
  mutating func compareRows(comparesEntries: Bool, _ report: (IndexFault) throws -> Void) throws {
    var rows = RowStream(
      collection, in: snapshot, keysOnly: !comparesEntries || indexes.allSatisfy { !$0.isDirect })
    var values = emitted.map {
      FamilyCursor(StorageRange(), in: $0, of: snapshot, isReverse: false, keysOnly: !comparesEntries)
    }
    var row = try rows.next()
    var value = try values?.next()
    while row != nil || value != nil {
      didExamine()
      let order = Self.compare(row?.key, value?.key)
      if order <= 0 { rowCount += 1 }
      if order < 0, let found = row {
        try report(.notEmitted(row: found.key))
      } else if order > 0, let found = value {
        try report(.withoutRow(row: found.key, emitted: found.value))
      } else if comparesEntries, let row, let value {
        try compareEntries(of: row.key, emitted: value.value, content: row.content, report)
      }
      if order <= 0 { row = try rows.next() }
      if order >= 0 { value = try values?.next() }
    }
  }

  /// Compares the entries of an index with the emitted values of their rows.
  ///
  /// Complexity: O(entries), with a read for each.
  mutating func compareEntries(of index: InspectedIndex, _ report: (IndexFault) throws -> Void) throws {
    guard let entries = index.entries else { return }
    var cursor = FamilyCursor(StorageRange(), in: entries, of: snapshot, isReverse: false, keysOnly: true)
    while let entry = try cursor.nextKey() {
      didExamine()
      entryCount += 1
      guard let (value, row) = try? IndexFormat.parts(ofEntry: entry) else {
        try report(.unreadableEntry(index, entry: entry))
        continue
      }
      let bytes = try emitted.flatMap { try snapshot.value(of: row, in: $0) }
      // Damaged emitted values are reported once as a fault of the row, not for each of its entries.
      guard let groups = try? bytes.map(IndexFormat.emitted) ?? [] else { continue }
      let isEmitted = groups.contains { group in
        group.index == index.number && group.values.contains { $0.elementsEqual(value) }
      }
      if !isEmitted { try report(.stale(index, entry: entry, row: row, value: value)) }
    }
  }

  private func compareEntries(
    of row: [UInt8], emitted bytes: [UInt8], content: [UInt8], _ report: (IndexFault) throws -> Void
  ) throws {
    guard let groups = try? IndexFormat.emitted(bytes) else { return try report(.unreadableEmitted(row: row)) }
    for group in groups {
      guard let index = indexes.first(where: { $0.number == group.index }) else { continue }
      let content = index.isDirect ? content : []
      for value in group.values {
        let entry = IndexFormat.entry(value: value, row: row)
        let found = try index.entries.flatMap { try snapshot.value(of: entry, in: $0) }
        if found == content { continue }
        let value = Array(value)
        try report(
          found == nil
            ? .missing(index, row: row, value: value, content: content)
            : .content(index, row: row, value: value, content: content))
      }
    }
  }

  /// Returns a negative number if the left key comes first, 0 if the keys are equal, and otherwise a positive number.
  ///
  /// `nil` stands for a stream that has ended, and comes last.
  private static func compare(_ left: [UInt8]?, _ right: [UInt8]?) -> Int {
    guard let left else { return 1 }
    guard let right else { return -1 }
    if left == right { return 0 }
    return left.lexicographicallyPrecedes(right) ? -1 : 1
  }
}

/// The rows of a collection in the order of their keys.
private struct RowStream {
  private var cursor: FamilyCursor?
  private let prefixSize: Int

  init(_ collection: InspectedCollection?, in snapshot: any StorageReading, keysOnly: Bool) {
    prefixSize = collection?.prefix.count ?? 0
    cursor = collection.map {
      FamilyCursor(
        StorageRange(prefix: $0.prefix), in: $0.objects, of: snapshot, isReverse: false, keysOnly: keysOnly)
    }
  }

  mutating func next() throws -> (key: [UInt8], content: [UInt8])? {
    guard let (key, content) = try cursor?.next() else { return nil }
    return (Array(key.dropFirst(prefixSize)), content)
  }
}
