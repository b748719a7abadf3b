@_spi(Extensions) internal import Varve

/// Makes what a manual view keeps consistent with the rows, after it may have missed changes or lost entries.
extension ViewContent {
  /// Removes the rows that do not exist any more.
  ///
  /// If entries were lost because damaged blocks were given up, each row then is where its last entry says; a row of
  /// which nothing is left is not in the view any more. Complexity: one lookup for each row.
  func sweep() throws {
    let transaction = try context.transaction
    var cursor = try places.cursor()
    while let (row, place) = try cursor.next() {
      if try exists(row, transaction) { continue }
      if let entry = try? ViewEntry(place: place), try rows.get(entry.key) == row { try rows.remove(entry.key) }
      try places.delete(row)
    }
    if try isConsistent() { return }
    try completeRows()
    try completePlaces(transaction)
  }

  /// Returns whether a row exists, by its key in `places`.
  func exists(_ row: [UInt8], _ transaction: ReadTransaction) throws -> Bool {
    let bytes = unsafe row.span.bytes
    guard let number = bytes.leadingNumber else { return false }
    return try transaction.contains(bytes.extracting(droppingFirst: 4), inCollection: number)
  }

  /// Returns whether both parts have the same rows at the same places, by the sums of hashes. Nothing is looked up.
  private func isConsistent() throws -> Bool {
    var sums: (rows: Int, places: Int) = (0, 0)
    var (rowCount, placeCount) = (0, 0)
    var cursor = try rows.cursor()
    while let (key, row) = try cursor.next() {
      sums.rows &+= Self.hash(key, row)
      rowCount += 1
    }
    cursor = try places.cursor()
    while let (row, place) = try cursor.next() {
      guard let entry = try? ViewEntry(place: place) else { return false }
      sums.places &+= Self.hash(entry.key, row)
      placeCount += 1
    }
    return rowCount == placeCount && sums.rows == sums.places
  }

  private static func hash(_ key: [UInt8], _ row: [UInt8]) -> Int {
    var hasher = Hasher()
    hasher.combine(key)
    hasher.combine(row)
    return hasher.finalize()
  }

  /// Enters the rows of `places` that are missing in `rows`.
  private func completeRows() throws {
    var cursor = try places.cursor()
    while let (row, place) = try cursor.next() {
      let entry = try? ViewEntry(place: place)
      switch try entry.map({ try rows.get($0.key) }) {
      case .some(row?): break
      case .some(nil): if let entry { try rows.insert(entry.key, row) }
      // The place is damaged, or belongs to another row.
      case .some(_?), nil: try places.delete(row)
      }
    }
  }

  /// Enters the rows of `rows` that are missing in `places`, and removes those that have another place or are gone.
  private func completePlaces(_ transaction: ReadTransaction) throws {
    var cursor = try rows.cursor()
    while let (key, row) = try cursor.next() {
      let place = try places.get(row)
      if let place, try ViewEntry(place: place)?.key == key { continue }
      guard place == nil, try exists(row, transaction), let size = try? Self.group(in: key).size else {
        try rows.remove(key)
        continue
      }
      try places.put(row, ViewEntry(key: key, groupSize: size).place)
    }
  }
}
