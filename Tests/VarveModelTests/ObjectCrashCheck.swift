import EngineTestSupport
import VarveEngine
import VarveTestSupport

@testable import Varve

/// The comparison of the content of a disk after a crash with the content that must be there.
struct ObjectCrashCheck {
  let states: CrashedStates
  let guarantee: CrashedGuarantee
  let policy: CrashPolicy

  /// Checks the content, and returns how many transactions are there.
  func run(_ database: Database, _ backend: EngineBackend) throws -> Int {
    let count = try presentCount(database)
    let promised = policy == .processKill ? max(guarantee.process, guarantee.power) : guarantee.power
    guard count >= promised else { throw ContractBroken("\(count) transactions are there, \(promised) were promised") }
    guard count <= guarantee.begun else { throw ContractBroken("\(count) transactions, \(guarantee.begun) were begun") }
    try checkContent(database, states.contents[count])
    try checkFamilies(database, backend)
    try checkFeed(database, count)
    return count
  }

  /// Checks that the transactions that were found are the first ones, and returns their number.
  private func presentCount(_ database: Database) throws -> Int {
    let numbers = try database.core.read { try $0.keys(Int.self, in: "log") }
    guard numbers == Array(0..<numbers.count).map({ $0 + 1 }) else {
      throw ContractBroken("transactions \(numbers) are there")
    }
    return numbers.count
  }

  private func checkContent(_ database: Database, _ expected: CrashedStates.Content) throws {
    try database.core.read { tx in
      for name in ["log", "own", "shared"] {
        let rows = expected[name] ?? [:]
        guard try tx.count(in: name) == rows.count else {
          throw ContractBroken("\(name) counts \(try tx.count(in: name)) rows, not \(rows.count)")
        }
        var cursor = try tx.rows(in: name)
        var found: [Int: CrashedRow] = [:]
        while let row = try cursor.next() {
          found[try row.key()] = CrashedRow(
            object: try row.object(), note: try row.metadata(as: CrashedNote.self), id: row.id.number)
        }
        guard found == rows else {
          let differing = Set(found.keys).union(rows.keys).filter { found[$0] != rows[$0] }.sorted()
          throw ContractBroken("rows \(differing) of \(name) are torn")
        }
      }
      let names = expected.filter { !$0.value.isEmpty }.keys.sorted()
      guard try tx.collections() == names else { throw ContractBroken("collections \(try tx.collections())") }
    }
  }

  /// Checks that counts are the numbers of rows, and that each row and its metadata refer to each other.
  private func checkFamilies(_ database: Database, _ backend: EngineBackend) throws {
    let snapshot = try backend.snapshot()
    let catalog = database.core.catalog
    for info in catalog.collections {
      let objects = try Contract.rows(snapshot, info.objects, info.range)
      let flagged = try objects.filter { try unsafe RowHeader.read($0.value.span.bytes).header.hasMetadata }.map(\.key)
      let noted = try Contract.rows(snapshot, info.metadata, info.range).map(\.key)
      guard flagged == noted else {
        throw ContractBroken("\(info.name): rows \(flagged) say that they have metadata, and \(noted) have")
      }
      let count =
        try snapshot.value(of: info.countKey, in: catalog.families.counts)
        .flatMap(StorageBatch.counterNumber) ?? 0
      guard count == objects.count else {
        throw ContractBroken("\(info.name) has \(objects.count) rows, and the count \(count)")
      }
    }
    let shared = catalog.collections.filter { !$0.record.isOwn }
    for family in [catalog.families.objects, catalog.families.metadata] {
      let keys = try Contract.rows(snapshot, family).map(\.key)
      let strays = keys.filter { key in !shared.contains { key.starts(with: $0.prefix) } }
      guard strays.isEmpty else { throw ContractBroken("rows of no collection: \(strays)") }
    }
  }

  /// Checks that the feed reports exactly the transactions that are there, in order.
  private func checkFeed(_ database: Database, _ count: Int) throws {
    var labels: [String] = []
    var last = CommitVersion.zero
    while true {
      let events = try database.core.readFeed(after: last, commitLimit: 50, rowLimit: .max).events
      if events.isEmpty { break }
      for event in events {
        guard case .changes(let changes) = event else { throw ContractBroken("the feed has a gap: \(event)") }
        guard changes.version > last else { throw ContractBroken("the feed goes back to \(changes.version)") }
        last = changes.version
        labels.append(changes.label ?? "none")
        let logged = changes.insertedKeys(in: "log")
        guard try logged.map({ "\(try $0.key(as: Int.self))" }) == [changes.label ?? ""] else {
          throw ContractBroken("the feed's entry \(changes.label ?? "") tells of \(logged)")
        }
      }
    }
    guard labels == (0..<count).map({ "\($0 + 1)" }) else {
      throw ContractBroken("\(count) transactions are there, and the feed has \(labels)")
    }
  }
}
