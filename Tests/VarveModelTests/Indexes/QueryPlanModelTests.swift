import EngineTestSupport
import Foundation
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the number of entries that plans read: the chosen plan, and all alternatives.
///
///     VARVE_TEST_SCALE=25 ./tools/test --filter QueryPlanModelTests
struct QueryPlanModelTests {
  @Test func `no query reads more than twice the entries of the best possible plan, plus a hundred`() throws {
    let database = try Database.inMemory { VolumeFormat.self }
    let volumes = Store<VolumeFormat>(in: database)
    let seed = TestScale.seed ?? 19
    var random = SeededRandom(seed: seed)
    try database.core.write(WriteTerms()) { tx in
      for id in 0..<3_000 {
        let volume = Volume(
          id: id, title: "title \(random.below(30 + id % 300))", year: 1900 + random.below(20) * random.below(6),
          isbn: random.oneIn(2) ? nil : "isbn \(id)", tags: (0..<random.below(4)).map { _ in "t\(random.below(8))" },
          shelf: random.oneIn(4) ? .science : .fiction,
          home: random.oneIn(3) ? nil : Volume.Home(city: "city \(random.below(5))"), price: Decimal(random.below(50)))
        try volumes.persist(volume, in: tx)
      }
    }
    var (several, chosenBest) = (0, 0)
    for number in 0..<TestScale.count(200) {
      let query = volumes.query.filter(Self.condition(&random, depth: 2))
      try database.core.read { outer in
        func entries(_ choose: (QueryPlanner<VolumeFormat>) throws -> QueryPlan<VolumeFormat>) throws -> (Int, [Int])? {
          let counting = CountingSnapshot(outer.snapshot)
          let tx = ReadTransaction(database: database.core, snapshot: counting)
          defer { tx.end() }
          guard let run = try Varve.QueryRun(query, tx, choose: choose) else { return nil }
          // The entries that are read to choose a plan are limited by another test.
          counting.reset()
          var scan = try run.begin(readsRows: false)
          var ids: [Int] = []
          while let key = try scan.nextKey() { ids.append(try run.info.key(of: key).key()) }
          return (counting.count, ids.sorted())
        }
        let taken: (count: Int, ids: [Int])
        do {
          guard let found = try entries({ try $0.plan() }) else { return }
          taken = found
        } catch let error as DatabaseError where error.code == .notIndexed { return }
        guard let condition = query.condition else { return }
        let branches = try ConditionBranches(condition).branches
        var best = Int.max
        // There are three plans for each branch, of at most three branches.
        for choice in 0..<[1, 3, 9, 27][min(branches.count, 3)] {
          let other = try entries { planner in try Self.plan(planner, branches, choice) }
          guard let other else { continue }
          #expect(other.1 == taken.ids, "seed \(seed), query \(number): \(String(describing: condition.definition))")
          best = min(best, other.0)
        }
        several += 1
        if taken.count <= best { chosenBest += 1 }
        let plan = try query.explain(in: outer)
        #expect(
          taken.count <= 2 * best + 100,
          "seed \(seed), query \(number): \(taken.count) entries, and \(best) by another plan: \(String(describing: condition.definition)); \(plan)"
        )
      }
    }
    // Most queries must have several plans to compare, and must choose the best one.
    if ModelPlan.isWhole { #expect(several > TestScale.count(200) / 3 && chosenBest > several / 2) }
  }

  /// Returns a plan with one access for each branch, chosen by the digits of a number, or by the planner if a branch
  /// has no choice.
  private static func plan(
    _ planner: QueryPlanner<VolumeFormat>, _ branches: [QueryPlanner<VolumeFormat>.Branch], _ choice: Int
  ) throws -> QueryPlan<VolumeFormat> {
    var digits = choice
    var planned: [QueryPlan<VolumeFormat>.Branch] = []
    for branch in branches {
      var accesses = try planner.candidates(for: branch).filter { $0.boundCount > 0 }
      if let rows = planner.rows(for: branch) { accesses.append(rows) }
      guard !accesses.isEmpty else { return try planner.plan() }
      let access = accesses[digits % accesses.count]
      digits /= 3
      let all = Set(0..<(branch.sets.count + branch.others.count))
      planned.append(.init(accesses: [access], isExact: access.terms == all))
    }
    return QueryPlan(branches: planned, sorts: false, isMerged: false)
  }

  private static func condition(_ random: inout SeededRandom, depth: Int) -> Condition<Volume> {
    if depth > 0, !random.oneIn(4) {
      let (left, right) = (condition(&random, depth: depth - 1), condition(&random, depth: depth - 1))
      return random.oneIn(3) ? left || right : left && right
    }
    let year = 1900 + random.below(100)
    let (id, city, tag, price) = (random.below(3_000), random.below(5), random.below(8), random.below(50))
    switch random.below(11) {
    case 0: return Condition { $0.year == year }
    case 1: return Condition { $0.year.isIn(year..<year + 10) }
    case 2: return Condition { $0.title == "title \(id % 60)" }
    case 3: return Condition { $0.title.hasPrefix("title \(id % 10)") }
    case 4: return Condition { $0.isbn == "isbn \(id)" }
    case 5: return Condition { $0.tags.contains("t\(tag)") }
    case 6: return Condition { $0.shelf == .science }
    case 7: return Condition { $0.home.city == "city \(city)" }
    case 8: return Condition { $0.price == Decimal(price) }
    case 9: return Condition { $0.price < Decimal(price) }
    default: return Condition { $0.id.isIn(id..<id + 200) }
    }
  }
}
