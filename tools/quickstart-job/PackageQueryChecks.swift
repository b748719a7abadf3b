import Varve

/// Checks queries for packages by maintainer, by section and installed size, and by the beginning of their names.
///
/// Each query uses an index, and is compared with a scan of all packages. Throws at the first difference.
struct PackageQueryChecks {
  private let store: Store<PackageFormat>

  init(_ store: Store<PackageFormat>) { self.store = store }

  /// The contents of a section.
  struct Section: Equatable {
    var name: String
    var count = 0
    /// The sum of the installed sizes of its packages in KiB.
    var installedSize = 0
  }

  /// The duration of the queries of one index.
  struct Timing {
    var queryCount = 0
    /// The number of packages that all queries found together.
    var foundCount = 0
    var duration = Duration.zero
  }

  struct Outcome {
    /// The duration of one scan of all packages, which answers all queries at once.
    var scan = Duration.zero
    var byMaintainer = Timing()
    var bySection = Timing()
    var byName = Timing()
    /// The sections, the largest first.
    var sections: [Section] = []
  }

  /// The fields of a package that the queries use.
  private struct Listed: Comparable {
    let id: PackageID
    let installedSize: Int?

    /// Compares by size and then by id. A package without a size comes first.
    static func < (left: Listed, right: Listed) -> Bool {
      (left.installedSize ?? -1, left.id) < (right.installedSize ?? -1, right.id)
    }
  }

  /// The results of a scan of all packages.
  private struct Scanned {
    var byMaintainer: [String?: [PackageID]] = [:]
    var bySection: [String?: [Listed]] = [:]
    /// The packages by the first one, two and three characters of their names.
    var byName: [String: [PackageID]] = [:]
  }

  /// Runs all queries in the snapshot of a transaction.
  func run(in tx: ReadTransaction) throws -> Outcome {
    var outcome = Outcome()
    let clock = ContinuousClock()
    var scanned = Scanned()
    outcome.scan = try clock.measure { scanned = try scan(tx) }
    try checkCounts(scanned, tx)
    try checkIndexesAreUsed(tx)
    outcome.byMaintainer = try checkMaintainers(scanned, tx)
    outcome.bySection = try checkSections(scanned, tx)
    outcome.byName = try checkNames(scanned, tx)
    outcome.sections = scanned.bySection.map { name, packages in
      Section(
        name: name ?? "none", count: packages.count,
        installedSize: packages.reduce(0) { $0 + ($1.installedSize ?? 0) })
    }.sorted { ($1.installedSize, $0.name) < ($0.installedSize, $1.name) }
    return outcome
  }

  private func scan(_ tx: ReadTransaction) throws -> Scanned {
    var scanned = Scanned()
    var cursor = try store.load(..., in: tx)
    while let package = try cursor.next() {
      scanned.byMaintainer[package.maintainer, default: []].append(package.id)
      scanned.bySection[package.section, default: []].append(
        Listed(id: package.id, installedSize: package.installedSize))
      for length in 1...3 where package.id.name.count >= length {
        scanned.byName[String(package.id.name.prefix(length)), default: []].append(package.id)
      }
    }
    return scanned
  }

  /// Checks that each package is in each index once, whatever its value is.
  private func checkCounts(_ scanned: Scanned, _ tx: ReadTransaction) throws {
    let expected = scanned.byMaintainer.values.reduce(0) { $0 + $1.count }
    for (count, index) in [
      (try store.count(.all, from: \.byMaintainer, in: tx), "byMaintainer"),
      (try store.count(.all, from: \.bySection, in: tx), "bySection"), (try entryCount(tx), "bySection"),
      (try store.count(.all, from: \.byName, in: tx), "byName"),
    ] where count != expected {
      throw JobError("index \(index) has \(count) packages, and a scan finds \(expected)")
    }
  }

  /// Returns the number of entries of the counted index, without its counts.
  private func entryCount(_ tx: ReadTransaction) throws -> Int {
    var cursor = try store.load(.all, from: \.bySection, in: tx)
    var count = 0
    while try cursor.next() != nil { count += 1 }
    return count
  }

  /// Checks that the queries use the indexes: a query that reads all rows would find the same packages.
  private func checkIndexesAreUsed(_ tx: ReadTransaction) throws {
    for (query, index) in [
      (store.query.filter { $0.maintainer == "a" }, "byMaintainer"),
      (store.query.filter { $0.section == "a" && $0.installedSize >= 1 }, "bySection"),
      (store.query.filter { $0.id.name.hasPrefix("a") }, "byName"),
    ] {
      let plan = try query.explain(in: tx)
      guard plan.accesses.map(\.index) == [index] else {
        throw JobError("a query that index \(index) answers runs so: \(plan)")
      }
    }
  }

  private func checkMaintainers(_ scanned: Scanned, _ tx: ReadTransaction) throws -> Timing {
    var timing = Timing()
    for (maintainer, expected) in scanned.byMaintainer {
      let query = store.query.filter { $0.maintainer == maintainer }
      try check(query, expected, "by maintainer \(maintainer ?? "none")", &timing, tx)
    }
    return timing
  }

  /// Checks each section in descending order of size, and the larger half of its packages.
  private func checkSections(_ scanned: Scanned, _ tx: ReadTransaction) throws -> Timing {
    var timing = Timing()
    for (section, packages) in scanned.bySection {
      let expected = packages.sorted(by: >)
      let all = store.query.filter { $0.section == section }.sorted(by: \.installedSize, descending: true)
      try check(all, expected.map(\.id), "by section \(section ?? "none")", isOrdered: true, &timing, tx)
      guard let size = expected[expected.count / 2].installedSize else { continue }
      let half = store.query.filter { $0.section == section && $0.installedSize >= size }
        .sorted(by: \.installedSize, descending: true)
      let larger = expected.filter { $0.installedSize ?? -1 >= size }.map(\.id)
      try check(
        half, larger, "by section \(section ?? "none") from \(size) KiB on", isOrdered: true, &timing, tx)
    }
    return timing
  }

  private func checkNames(_ scanned: Scanned, _ tx: ReadTransaction) throws -> Timing {
    var timing = Timing()
    for (prefix, expected) in scanned.byName {
      let query = store.query.filter { $0.id.name.hasPrefix(prefix) }
      try check(query, expected, "by names that begin with \(prefix)", &timing, tx)
    }
    return timing
  }

  private func check(
    _ query: StoreQuery<PackageFormat>, _ expected: [PackageID], _ what: String, isOrdered: Bool = false,
    _ timing: inout Timing, _ tx: ReadTransaction
  ) throws {
    var found: [PackageID] = []
    var count = 0
    timing.duration += try ContinuousClock().measure {
      found = try query.ids(in: tx)
      count = try query.count(in: tx)
    }
    timing.queryCount += 1
    timing.foundCount += found.count
    let isRight = isOrdered ? found == expected : found.sorted() == expected.sorted()
    guard isRight, count == expected.count else {
      throw JobError(
        "\(what): an index finds \(found.count) packages and counts \(count), a scan \(expected.count), or others")
    }
  }
}
