import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of Foundation's predicates as conditions.
struct PredicateTests {
  private let volumes: [Volume] = (0..<60).map { id in
    Volume(
      id: id, title: ["Emma", "The Sea", "Theseus", "zz"][id % 4], year: 1990 + id % 12,
      isbn: id % 3 == 0 ? nil : "i\(id)",
      tags: id % 2 == 0 ? ["x"] : ["y", "z"], home: id % 5 == 0 ? nil : Volume.Home(city: "Bath"))
  }

  /// Checks that the predicate and its condition match the same volumes.
  private func check(_ predicate: Predicate<Volume>, _ sourceLocation: SourceLocation = #_sourceLocation) throws {
    let condition = try Condition(predicate)
    for volume in volumes {
      #expect(
        try condition.holds(for: volume) == predicate.evaluate(volume), "volume \(volume.id)",
        sourceLocation: sourceLocation)
    }
  }

  @Test func `a predicate and the condition made of it match the same rows`() throws {
    let (year, isbn, years): (Int, String?, [Int]) = (1995, "i7", [1991, 1999])
    try check(#Predicate { $0.year == year })
    try check(#Predicate { year != $0.year && $0.title == "Emma" })
    try check(#Predicate { $0.year < 1994 || $0.year >= 2000 || !($0.title <= "The Sea") })
    try check(#Predicate { 1994 > $0.year })
    try check(#Predicate { $0.isbn == nil })
    try check(#Predicate { $0.isbn == isbn })
    try check(#Predicate { $0.isbn != nil && $0.tags.contains("x") })
    try check(#Predicate { years.contains($0.year) })
    try check(#Predicate { (1992..<1996).contains($0.year) })
    try check(#Predicate { (1992...1996).contains($0.year) })
    try check(#Predicate { $0.title.contains("e") && $0.title.starts(with: "The") })
  }

  @Test func `a query accepts a predicate, and uses its indexes`() throws {
    let database = try Database.inMemory { VolumeFormat.self }
    let store = Store<VolumeFormat>(in: database)
    try database.write { [volumes] tx in try store.persist(contentsOf: volumes, in: tx) }
    try database.read { tx throws in
      let query = try store.query.filter(#Predicate { $0.year == 1995 && $0.title == "Emma" })
      #expect(try query.explain(in: tx).description == "index \"byYear\", 1 range of 2 fields")
      #expect(try query.count(in: tx) == volumes.filter { $0.year == 1995 && $0.title == "Emma" }.count)
      #expect(query == store.query.filter { $0.year == 1995 && $0.title == "Emma" })
    }
  }

  @Test func `a predicate without a condition is refused, and named`() throws {
    func refused(_ predicate: Predicate<Volume>) -> String? {
      do { _ = try Condition(predicate) } catch let error as DatabaseError {
        return error.code == .invalidArgument ? error.message : nil
      } catch {}
      return nil
    }
    #expect(refused(#Predicate { $0.year + 1 == 1995 })?.contains("has a Equal") == true)
    #expect(refused(#Predicate { $0.title.count == 3 && $0.year == $0.id })?.contains("has a Equal") == true)
    #expect(refused(#Predicate { $0.tags.allSatisfy { $0 == "x" } })?.contains("has a SequenceAllSatisfy") == true)
  }
}
