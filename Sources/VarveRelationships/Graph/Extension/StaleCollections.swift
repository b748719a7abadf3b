@_spi(Extensions) internal import Varve

/// Collects the edges of collections whose rows were set as bytes by a program that has not defined their types: the
/// stored edges of such rows are outdated. A program that has defined the type collects them again when it opens the
/// database, without applying rules.
struct StaleCollections {
  private let database: Database
  private let handle: ExtensionHandle<Relationships>
  private let isStopping: () -> Bool

  /// The number of rows that one transaction handles.
  private static let chunk = 1_000

  init(_ database: Database, _ handle: ExtensionHandle<Relationships>, isStopping: @escaping () -> Bool) {
    (self.database, self.handle, self.isStopping) = (database, handle, isStopping)
  }

  func run() {
    do {
      let numbers = try database.write { tx in try tx[handle].staleCollections() }
      for number in numbers {
        var last: RowKey?
        while !isStopping() {
          let next = try database.write(label: "edges of \(handle.name)") { tx in
            try tx[handle].collectStale(number, after: last, count: Self.chunk)
          }
          guard let next else { break }
          last = next
        }
      }
    } catch {
      // The extension is not built yet, the database is closed, or a row cannot be read: the rest remains marked for
      // the next open.
    }
  }
}

extension RelationshipsTransaction {
  private static let staleKey = "edgesStale"

  /// Marks a collection in which rows were set whose edges could not be collected.
  func noteStale(_ number: UInt32) throws {
    var numbers = try staleCollections()
    if numbers.contains(number) { return }
    numbers.append(number)
    try setStale(numbers)
  }

  /// Returns the numbers of the collections whose stored edges may differ from those that rows declare.
  func staleCollections() throws -> [UInt32] {
    guard case .data(let bytes)? = try context.setting(Self.staleKey) else { return [] }
    return stride(from: 0, to: bytes.count - 3, by: 4).map { position in
      bytes[position..<(position + 4)].reduce(0) { $0 << 8 | UInt32($1) }
    }
  }

  private func setStale(_ numbers: [UInt32]) throws {
    let bytes = numbers.flatMap { number in
      stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt32($0)) }
    }
    try context.set(numbers.isEmpty ? nil : .data(bytes), for: Self.staleKey)
  }

  /// Collects the edges of the next rows of a collection. Returns the last of them, or nil if there are no more rows or
  /// their type is not defined. After the last row, the mark of the collection is removed.
  func collectStale(_ number: UInt32, after last: RowKey?, count: Int) throws -> RowKey? {
    let writer = try writing()
    guard let collection = try writer.collectionName(of: number) else {
      try setStale(staleCollections().filter { $0 != number })
      return nil
    }
    var rows = try writer.rows(in: collection, after: last)
    var found: RowKey?
    var left = count
    while left > 0, let row = try rows.next() {
      guard let type = row.objectType else { return nil }
      var end: [UInt8] = []
      row.key.withBytes { EdgeFormat.append(row: number, $0, to: &end) }
      try declare(NodeAccess.of(type)?.edges(of: row) ?? [], from: end, isFresh: false, isNoted: false)
      found = row.key
      left -= 1
    }
    if left > 0 { try setStale(staleCollections().filter { $0 != number }) }
    return left > 0 ? nil : found
  }
}
