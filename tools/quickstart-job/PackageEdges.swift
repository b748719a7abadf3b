import Varve
import VarveRelationships

/// The name of a package, which one or several versions have and which dependencies refer to.
struct PackageName: Persistable {
  static let collection = "names"
  let id: String
}

/// The edges between the packages of an index and names.
///
/// ```
///  package ── named ────────▶ name     the name is removed with its last package
///  package ── depends ──────▶ name     the package is removed with the name
///  package ── alternative ──▶ name     one of several is enough: no removal
/// ```
/// A name without a package in the index gets no row, and the edges to it dangle.
extension DebianPackage: RelationshipNode {
  static let graph = Relationships(counting: .sameName).named("packages")

  func relationshipEdges() throws -> [RelationshipEdge] {
    var edges = [try RelationshipEdge("named", to: PackageName.self, id.name, .deleteDestinationIfAllSourcesDeleted)]
    for names in requirements {
      for name in names {
        edges.append(
          names.count == 1
            ? try RelationshipEdge("depends", to: PackageName.self, name, .deleteSourceIfDestinationDeleted)
            : try RelationshipEdge("alternative", to: PackageName.self, name))
      }
    }
    return edges
  }

  /// The alternative names of each dependency, of which one is enough.
  var requirements: [[String]] {
    dependencies.map { dependency in
      dependency.split(separator: "|").compactMap { alternative in
        let name = alternative.drop { $0 == " " }.prefix { $0 != " " && $0 != "(" && $0 != ":" && $0 != "[" }
        return name.isEmpty ? nil : String(name)
      }
    }
  }
}

/// Compares the edges with those computed from the packages without the database.
struct PackageEdgeChecks {
  private let database: Database
  private let packages: [PackageID: DebianPackage]
  /// The ids of the packages of each name.
  private let ids: [String: [PackageID]]
  /// The ids of the packages that depend on each name.
  private let needing: [String: Set<PackageID>]

  struct Outcome {
    var edgeCount = 0
    var dangling = 0
    var counting = Duration.zero
    /// The name that most packages depend on, the number of these, and the number of packages that would be removed
    /// with it.
    var mostNeeded = (name: "", count: 0, removed: 0, removing: Duration.zero)
  }

  init(_ database: PackageDatabase, _ packages: [PackageID: DebianPackage]) {
    self.database = database.database
    self.packages = packages
    ids = Dictionary(grouping: packages.keys, by: \.name)
    var needing: [String: Set<PackageID>] = [:]
    for package in packages.values {
      for names in package.requirements where names.count == 1 { needing[names[0], default: []].insert(package.id) }
    }
    self.needing = needing
  }

  func run() throws -> Outcome {
    var outcome = Outcome()
    let known = needing.filter { ids[$0.key] != nil }
    let mostNeeded = known.map { (name: $0.key, count: $0.value.count) }
      .sorted { ($0.count, $1.name) > ($1.count, $0.name) }
    try database.read { tx in
      let graph = try tx[DebianPackage.graph]
      outcome.counting = try ContinuousClock().measure { outcome.edgeCount = try graph.count(EdgeQuery("depends")) }
      try require(outcome.edgeCount, known.reduce(0) { $0 + $1.value.count }, "edges \"depends\"")
      outcome.dangling = try graph.danglingEdges().count { $0.name == "depends" }
      let unknown = needing.filter { ids[$0.key] == nil }
      try require(outcome.dangling, unknown.reduce(0) { $0 + $1.value.count }, "edges to names that no package has")
      for (name, count) in mostNeeded.prefix(20) {
        let row = EdgeEnd.row(try PackageName.rowKey(name))
        try require(try graph.count(EdgeQuery("depends", to: row)), count, "packages that need \(name)")
      }
    }
    for (name, count) in [mostNeeded.first, mostNeeded.dropFirst(mostNeeded.count / 2).first].compactMap(\.self) {
      let (removed, removing) = try remove(name)
      try require(removed, self.removed(with: name), "packages that go with \(name)")
      if outcome.mostNeeded.name.isEmpty { outcome.mostNeeded = (name, count, removed, removing) }
    }
    return outcome
  }

  private func require(_ found: Int, _ expected: Int, _ what: String) throws {
    guard found == expected else { throw JobError("\(found) \(what) instead of \(expected)") }
  }

  /// Removes all packages of a name and the packages that are removed with them, and rolls the transaction back.
  private func remove(_ name: String) throws -> (count: Int, duration: Duration) {
    var removed = 0
    let duration = try ContinuousClock().measure {
      do {
        try database.write { tx in
          let before = try tx.count(in: PackageFormat.collection)
          for id in ids[name] ?? [] { try tx.remove(key: id, in: PackageFormat.collection) }
          try tx[DebianPackage.graph].flush()
          removed = before - (try tx.count(in: PackageFormat.collection))
          try tx.rollBack()
        }
      } catch let error as DatabaseError where error.code == .rolledBack {}
    }
    return (removed, duration)
  }

  /// Returns the number of packages that are removed with a name, computed without the database.
  ///
  /// A package is removed when all packages of a name that it depends on have been removed.
  private func removed(with name: String) -> Int {
    var left = ids.mapValues(\.count)
    var gone = Set(ids[name] ?? [])
    var queue = Array(gone)
    while let id = queue.popLast() {
      left[id.name, default: 0] -= 1
      guard left[id.name] == 0 else { continue }
      for other in needing[id.name] ?? [] where gone.insert(other).inserted { queue.append(other) }
    }
    return gone.count
  }
}
