import VarveTestSupport

@testable import Varve

/// The comparison of the commits that were found on two lanes (transactions, and independent commits) with those that
/// must be there.
struct LaneCheck {
  typealias Entry = LaneScript.Entry

  let guarantee: LaneScript.Guarantee
  let acknowledgedBefore: [Entry: [Int]]
  /// The order of all commits by their stamps, or `nil` if it is not known.
  var order: [Entry: UInt64]?
  /// Whether only commits that had to survive a loss of power must be there.
  let losesPower: Bool

  /// Returns the commits that were found, with their stamps.
  static func entries(_ tx: ReadTransaction) throws -> [Entry: UInt64] {
    var entries: [Entry: UInt64] = [:]
    var cursor = try tx[ExtensionRun.parts][.asideValues].cursor()
    while let (key, value) = try cursor.next() {
      guard let lane = LaneScript.Lane(rawValue: key[0]), let number: UInt32 = BigEndian.number(key, at: 1),
        let stamp: UInt64 = BigEndian.number(value)
      else { throw ContractBroken("an entry \(key), \(value)") }
      entries[Entry(lane: lane, number: Int(number))] = stamp
    }
    return entries
  }

  /// Checks which commits are there, and returns their number in each lane.
  func count(_ database: Database) throws -> [Int] {
    let (found, sums) = try database.core.read { tx in
      let sums = try tx[ExtensionRun.parts][.asideSums]
      return (try Self.entries(tx), try LaneScript.Lane.allCases.map { Int(try sums.counter([$0.rawValue])) })
    }
    let counts = LaneScript.Lane.allCases.map { lane in found.keys.count { $0.lane == lane } }
    guard sums == counts else { throw ContractBroken("\(counts) commits are there, and the counters say \(sums)") }
    for (lane, count) in zip(LaneScript.Lane.allCases, counts) {
      // The commits of each lane must be its first ones.
      for number in stride(from: 1, through: count, by: 1) where found[Entry(lane: lane, number: number)] == nil {
        throw ContractBroken("\(count) commits of \(lane) are there, without number \(number)")
      }
    }
    let promised = losesPower ? guarantee.power : zip(guarantee.process, guarantee.power).map { max($0, $1) }
    guard zip(counts, promised).allSatisfy({ $0 >= $1 }), zip(counts, guarantee.begun).allSatisfy({ $0 <= $1 }) else {
      throw ContractBroken("\(counts) commits are there; promised were \(promised), begun \(guarantee.begun)")
    }
    for entry in found.keys {
      let before = acknowledgedBefore[entry] ?? [0, 0]
      guard zip(counts, before).allSatisfy({ $0 >= $1 }) else {
        throw ContractBroken("\(entry) is there, which began after \(before), and \(counts) are there")
      }
    }
    if let order {
      // The commits must be a prefix of the order of all commits, over both lanes.
      let last = found.keys.compactMap { order[$0] }.max() ?? 0
      let expected = order.filter { $0.value <= last }
      guard found == expected else {
        let differing = Set(found.keys).symmetricDifference(expected.keys)
        throw ContractBroken("what is there is no prefix of the commits: \(differing)")
      }
    }
    return counts
  }

  /// Checks the rows, the rows that hooks derived, and all contents of extensions, against the expected `rows`; the
  /// contents must be those of one of the definitions in `versions`.
  static func checkContent(_ database: Database, rows: [Int: Int], versions: Set<Int>) throws {
    try database.core.read { tx in
      var expected: [(name: String, rows: [Int: Int])] = [("rows", rows), ("derived", rows.mapValues { 2 * $0 })]
      expected.append(("chained", rows.compactMapValues { ModelChain.chained(2 * $0) }))
      var mirrored: [UInt64: String] = [:]
      for (name, rows) in expected {
        var cursor = try tx.rows(in: name)
        var found: [Int: Int] = [:]
        while let row = try cursor.next() {
          found[try row.key()] = try row.object(as: Int.self)
          mirrored[row.id.number] = name
        }
        guard found == rows else { throw ContractBroken("\(name) has \(found), not \(rows)") }
        guard try tx[ExtensionRun.tally].count(in: name) == rows.count else {
          throw ContractBroken("the tally of \(name)")
        }
      }
      guard try tx[ExtensionRun.mirror].all() == mirrored else { throw ContractBroken("the mirror differs") }
      let scratch = try ModelMirror.sum(try tx[ExtensionRun.mirror].rows)
      guard try tx[ExtensionRun.mirror].context.shared.value == scratch else {
        throw ContractBroken("the shared state is not that of the parts")
      }
      try checkDerivation(tx, rows, versions)
    }
  }

  private static func checkDerivation(_ tx: ReadTransaction, _ rows: [Int: Int], _ versions: Set<Int>) throws {
    var found: [Int: Int] = [:]
    var foundVersions: Set<Int> = []
    var kept: [[UInt8]: [UInt8]] = [:]
    var cursor = try tx[LaneScript.deriving].seen.cursor()
    while let (key, value) = try cursor.next() {
      let (version, number) = try ModelDerivingTransaction.number(value)
      found[Int(key[0])] = number
      foundVersions.insert(version)
      kept[key] = value
    }
    guard found == rows else { throw ContractBroken("the derivation has \(found), not \(rows)") }
    guard foundVersions.count <= 1, foundVersions.isSubset(of: versions) else {
      throw ContractBroken("the derivation is of versions \(foundVersions), not one of \(versions)")
    }
    let sum = rows.values.reduce(0, +)
    guard try tx[LaneScript.deriving].sums.counter([0]) == Int64(sum) else {
      throw ContractBroken("the sum of the rows")
    }
    var copies: [[UInt8]: [UInt8]] = [:]
    var copy = try tx[ExtensionRun.dependent].copies.cursor()
    while let (key, value) = try copy.next() { copies[key] = value }
    guard copies == kept else { throw ContractBroken("the dependent has not what its dependency keeps") }
  }
}
