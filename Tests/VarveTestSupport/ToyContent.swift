import Varve

/// The content of a `ToyStorage` at one version: a value type, so that a snapshot is a copy.
struct ToyContent: Sendable {
  /// The version of the last commit that is included.
  var version: UInt64 = 0
  /// The families by their number.
  var families: [UInt32: ToyFamily] = [:]
}

/// A family at one version.
struct ToyFamily: Sendable {
  let name: String
  let options: StorageFamilyOptions
  var rows = ToyRows()
}

/// Rows in the order of their keys, in one array.
///
/// Complexity: O(log n) to find, O(n) to change, and a copy for each version. A test has few rows.
struct ToyRows: Sendable {
  struct Row: Sendable {
    let key: [UInt8]
    var value: [UInt8]
    /// The number of puts and additions since the key was last removed: a single delete may follow one put only.
    var writeCount = 1
  }

  private(set) var rows: [Row] = []

  /// Returns the index of the first row that is not before a key.
  func index(of key: [UInt8]) -> Int {
    var low = 0
    var high = rows.count
    while low < high {
      let middle = (low + high) / 2
      if rows[middle].key.lexicographicallyPrecedes(key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Returns the indexes of the rows in a range.
  func indices(in range: StorageRange) -> Range<Int> {
    let lower = index(of: range.lower)
    let upper = range.upper.map { index(of: $0) } ?? rows.count
    return lower..<max(lower, upper)
  }

  func find(_ key: [UInt8]) -> Row? {
    let index = index(of: key)
    return index < rows.count && rows[index].key == key ? rows[index] : nil
  }

  mutating func put(_ key: [UInt8], _ value: [UInt8]) {
    let index = index(of: key)
    if index < rows.count, rows[index].key == key {
      rows[index].value = value
      rows[index].writeCount += 1
    } else {
      rows.insert(Row(key: key, value: value), at: index)
    }
  }

  mutating func remove(_ key: [UInt8]) {
    let index = index(of: key)
    if index < rows.count, rows[index].key == key { rows.remove(at: index) }
  }

  mutating func remove(_ range: StorageRange) { rows.removeSubrange(indices(in: range)) }
}
