import Varve

/// Compares the stored packages with the expected ones. Each check throws at the first difference.
struct PackageChecks {
  private let database: Database
  private let store: Store<PackageFormat>
  private let packages: [PackageID: DebianPackage]
  private let ids: [PackageID]

  init(_ database: PackageDatabase, _ packages: [PackageID: DebianPackage]) {
    self.database = database.database
    store = database.store
    self.packages = packages
    ids = packages.keys.sorted()
  }

  /// The durations of the ways of reading, and the results of the index queries.
  struct Outcome {
    var byID = Duration.zero
    var inOrder = Duration.zero
    var queries = PackageQueryChecks.Outcome()
  }

  /// Checks every way of reading a store, at one snapshot.
  func run() throws -> Outcome {
    try database.read { tx in
      var outcome = Outcome()
      let clock = ContinuousClock()
      try checkCount(tx)
      outcome.byID = try clock.measure { try checkEach(tx) }
      outcome.inOrder = try clock.measure { try checkOrder(tx) }
      try checkRanges(tx)
      try checkMetadata(tx)
      outcome.queries = try PackageQueryChecks(store).run(in: tx)
      return outcome
    }
  }

  private func checkCount(_ tx: ReadTransaction) throws {
    let count = try store.count(in: tx)
    guard count == ids.count else { throw JobError("\(count) packages instead of \(ids.count)") }
  }

  /// Checks each package by its id, with its metadata, in calls of a hundred packages.
  private func checkEach(_ tx: ReadTransaction) throws {
    for start in stride(from: 0, to: ids.count, by: 100) {
      let some = ids[start..<min(start + 100, ids.count)]
      for (id, found) in zip(some, try store.load(ids: some, in: tx)) { try compare(found, with: id, "by its id") }
    }
  }

  /// Checks that a cursor returns all packages in the order of their ids, and no others.
  private func checkOrder(_ tx: ReadTransaction) throws {
    var cursor = try store.load(..., in: tx)
    for id in ids { try compare(try cursor.next(), with: id, "in order") }
    if let other = try cursor.next() { throw JobError("the cursor finds \(Self.text(other.id)), which must be absent") }
  }

  /// Checks, for each first character of a name, the number of packages that begin with it and the last of them.
  private func checkRanges(_ tx: ReadTransaction) throws {
    var start = 0
    while start < ids.count {
      let first = ids[start].name.unicodeScalars.first
      let end = ids[start...].firstIndex { $0.name.unicodeScalars.first != first } ?? ids.count
      // The version "" sorts before every other.
      let lower = PackageID(name: first.map { String($0) } ?? "", version: "")
      let upper = end < ids.count ? PackageID(name: ids[end].name, version: "") : nil
      try checkRange(lower, upper, expected: ids[start..<end], tx)
      start = end
    }
  }

  private func checkRange(
    _ lower: PackageID, _ upper: PackageID?, expected: ArraySlice<PackageID>, _ tx: ReadTransaction
  ) throws {
    let last: [PackageID]
    let count: Int
    if let upper {
      count = try store.count(lower..<upper, in: tx)
      last = try Array(try store.load(lower..<upper, descending: true, limit: 10, in: tx)).map(\.id)
    } else {
      count = try store.count(lower..., in: tx)
      last = try Array(try store.load(lower..., descending: true, limit: 10, in: tx)).map(\.id)
    }
    guard count == expected.count, last == expected.suffix(10).reversed() else {
      throw JobError("the range from \(Self.text(lower)) has \(count) packages or others than \(expected.count)")
    }
  }

  /// Checks how many packages have each architecture and priority, reading only the metadata.
  private func checkMetadata(_ tx: ReadTransaction) throws {
    var found: [DebianPackage.Metadata?: Int] = [:]
    for id in ids { found[try store.metadata(of: id, in: tx), default: 0] += 1 }
    var expected: [DebianPackage.Metadata?: Int] = [:]
    for id in ids { expected[packages[id]?.metadata, default: 0] += 1 }
    guard found == expected else {
      throw JobError("the metadata has other architectures and priorities than the index")
    }
  }

  private func compare(_ found: DebianPackage?, with id: PackageID, _ way: String) throws {
    guard let found else { throw JobError("package \(Self.text(id)) is absent \(way)") }
    guard found == packages[id] else { throw JobError("package \(Self.text(id)) is different \(way)") }
  }

  private static func text(_ id: PackageID) -> String { "\(id.name)/\(id.version)" }
}
