import EngineTestSupport
import Foundation
import Testing

@testable import Varve

/// Tests of whether conditions match instances, and of the branches that they are converted to.
struct ConditionTests {
  fileprivate struct Address: Hashable, Sendable {
    var city: String
    var number: Int?
  }

  fileprivate struct Colour: Hashable, Sendable { var red: Int }

  fileprivate struct Person: Sendable {
    var name = ""
    var nick: String?
    var year = 0
    var age: Int?
    var score = 0.0
    var isMember = false
    var tags: [String] = []
    var marks: [Int]?
    var home: Address?
    var colour = Colour(red: 0)
  }

  private typealias PersonCondition = Condition<Person>

  /// A condition, and the same condition as a Swift function.
  private struct Asked {
    let condition: PersonCondition
    let holds: (Person) -> Bool
  }

  // MARK: - Random conditions

  private static let names = ["", "a", "ab", "b", "\u{e9}", "e\u{301}x", "e", "f"]

  private static func person(_ random: inout SeededRandom) -> Person {
    Person(
      name: names[random.below(names.count)], nick: random.oneIn(3) ? nil : names[random.below(names.count)],
      year: random.below(6), age: random.oneIn(3) ? nil : random.below(6),
      score: random.oneIn(5) ? .nan : Double(random.below(4)) - 1, isMember: random.oneIn(2),
      tags: (0..<random.below(3)).map { _ in names[random.below(4)] },
      marks: random.oneIn(3) ? nil : (0..<random.below(3)).map { _ in random.below(4) },
      home: random.oneIn(3)
        ? nil : Address(city: names[random.below(4)], number: random.oneIn(2) ? nil : random.below(3)),
      colour: Colour(red: random.below(3)))
  }

  /// Returns the scalars of normal form C. Strings compare as their keys do: by these.
  private static func scalars(_ text: String) -> [UInt32] {
    text.precomposedStringWithCanonicalMapping.unicodeScalars.map(\.value)
  }

  private static func precedes(_ left: String, _ right: String) -> Bool {
    scalars(left).lexicographicallyPrecedes(scalars(right))
  }

  private static func term(_ random: inout SeededRandom) -> Asked {
    let number = random.below(6)
    let name = names[random.below(names.count)]
    let double = random.oneIn(6) ? Double.nan : Double(random.below(4)) - 1
    let (low, high) = (min(number, 3), max(number, 3))
    switch random.below(26) {
    case 0: return Asked(condition: Condition { $0.year == number }) { $0.year == number }
    case 1: return Asked(condition: Condition { $0.year != number }) { $0.year != number }
    case 2: return Asked(condition: Condition { $0.year < number }) { $0.year < number }
    case 3: return Asked(condition: Condition { $0.year >= number }) { $0.year >= number }
    case 4: return Asked(condition: Condition { $0.year.isIn(low...high) }) { (low...high).contains($0.year) }
    case 5: return Asked(condition: Condition { $0.year.isIn(low..<high) }) { (low..<high).contains($0.year) }
    case 6: return Asked(condition: Condition { $0.year.isIn([1, number]) }) { [1, number].contains($0.year) }
    case 7: return Asked(condition: Condition { $0.age == nil }) { $0.age == nil }
    case 8: return Asked(condition: Condition { $0.age == number }) { $0.age == number }
    case 9: return Asked(condition: Condition { $0.age != number }) { $0.age != number }
    case 10: return Asked(condition: Condition { $0.age > number }) { $0.age.map { $0 > number } ?? false }
    case 11: return Asked(condition: Condition { $0.age <= number }) { $0.age.map { $0 <= number } ?? false }
    case 12: return Asked(condition: Condition { $0.age.isIn([nil, number]) }) { [nil, number].contains($0.age) }
    case 13:
      return Asked(condition: Condition { $0.age.isIn(low...high) }) {
        $0.age.map { (low...high).contains($0) } ?? false
      }
    case 14: return Asked(condition: Condition { $0.score < double }) { $0.score < double }
    case 15: return Asked(condition: Condition { $0.score == double }) { $0.score == double }
    case 16: return Asked(condition: Condition { $0.name < name }) { precedes($0.name, name) }
    case 17: return Asked(condition: Condition { $0.name == name }) { $0.name == name }
    case 18:
      return Asked(condition: Condition { $0.name.hasPrefix(name) }) { scalars($0.name).starts(with: scalars(name)) }
    case 19:
      return Asked(condition: Condition { $0.nick.hasPrefix(name) }) {
        $0.nick.map { scalars($0).starts(with: scalars(name)) } ?? false
      }
    case 20: return Asked(condition: Condition { $0.nick >= name }) { $0.nick.map { !precedes($0, name) } ?? false }
    case 21: return Asked(condition: Condition { $0.isMember }) { $0.isMember }
    case 22: return Asked(condition: Condition { $0.tags.contains(name) }) { $0.tags.contains(name) }
    case 23: return Asked(condition: Condition { $0.marks.contains(number) }) { $0.marks?.contains(number) ?? false }
    case 24: return Asked(condition: Condition { $0.home.city == name }) { $0.home?.city == name }
    default:
      return Asked(condition: Condition { $0.colour == Colour(red: number) && $0.name.contains(name) }) {
        $0.colour.red == number && (name.isEmpty || $0.name.contains(name))
      }
    }
  }

  private static func condition(_ random: inout SeededRandom, depth: Int) -> Asked {
    if depth == 0 || random.oneIn(3) { return term(&random) }
    let left = condition(&random, depth: depth - 1)
    switch random.below(3) {
    case 0: return Asked(condition: !left.condition) { !left.holds($0) }
    case 1:
      let right = condition(&random, depth: depth - 1)
      return Asked(condition: left.condition && right.condition) { left.holds($0) && right.holds($0) }
    default:
      let right = condition(&random, depth: depth - 1)
      return Asked(condition: left.condition || right.condition) { left.holds($0) || right.holds($0) }
    }
  }

  // MARK: - Branches

  private static let keys: [FieldPath: @Sendable (Person) -> [UInt8]?] = [
    FieldPath(path: \Person.name): { try? $0.name.encoded() },
    FieldPath(path: \Person.nick): { try? $0.nick.encoded() },
    FieldPath(path: \Person.year): { try? $0.year.encoded() }, FieldPath(path: \Person.age): { try? $0.age.encoded() },
    FieldPath(path: \Person.score): { try? $0.score.encoded() },
    FieldPath(path: \Person.isMember): { try? $0.isMember.encoded() },
  ]

  private static func holds(_ branch: ConditionBranches<Person>.Branch, _ person: Person) -> Bool {
    for (path, set) in branch.sets {
      guard let key = keys[path] else {
        // The only path without an entry in `keys` leads through two fields: `home` and `city`.
        guard let city = try? person.home?.city.encoded() else {
          if set.contains([KeyTag.null]) { continue }
          return false
        }
        if !set.contains([KeyTag.some] + city) { return false }
        continue
      }
      guard key(person).map(set.contains) ?? set.hasUnkeyed else { return false }
    }
    return branch.others.allSatisfy { $0.term.test(person) != $0.isNegated }
  }

  @Test(arguments: (1...4).map { UInt64($0) })
  func `random conditions and their branches hold for the same rows as a check by hand`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let people = (0..<120).map { _ in Self.person(&random) }
    var (held, didNot, branchCount, refused) = (0, 0, 0, 0)
    for step in 0..<TestScale.count(400) {
      let asked = Self.condition(&random, depth: random.below(6))
      let branches: ConditionBranches<Person>
      do {
        branches = try ConditionBranches(asked.condition)
      } catch let error as DatabaseError where error.code == .queryTooComplex {
        refused += 1
        continue
      }
      branchCount += branches.branches.count
      for person in people {
        let expected = asked.holds(person)
        if expected { held += 1 } else { didNot += 1 }
        let location: Comment = "seed \(seed), step \(step), \(person)"
        #expect(try asked.condition.holds(for: person) == expected, location)
        #expect(branches.branches.contains { Self.holds($0, person) } == expected, location)
      }
      for branch in branches.branches {
        #expect(Set(branch.sets.map(\.path)).count == branch.sets.count && branch.sets.allSatisfy { !$0.set.isEmpty })
      }
    }
    #expect(
      !TestScale.isWhole || held > 2_000 && didNot > 2_000 && branchCount > 400 && refused < 40,
      "\(held), \(didNot), \(branchCount)")
  }

  @Test func `the terms about one field become one set of keys, in whatever form they are written`() throws {
    func only(_ condition: PersonCondition, _ path: FieldPath) throws -> KeySet {
      let branches = try ConditionBranches(condition).branches
      #expect(branches.count == 1)
      let branch = try #require(branches.first)
      #expect(branch.others.isEmpty && branch.sets.count == 1)
      return try #require(branch.set(of: path))
    }
    let year = FieldPath(path: \Person.year)
    let range = try only(Condition { $0.year >= 3 && $0.year < 5 }, year)
    #expect(try range == only(Condition { $0.year.isIn(3..<5) }, year))
    let list = try only(Condition { $0.year == 1 || $0.year == 2 || $0.year == 1 }, year)
    #expect(try list == only(Condition { $0.year.isIn([2, 1]) }, year))
    let hole = try only(Condition { $0.year >= 3 && $0.year != 4 }, year)
    #expect(try (0..<8).map { try hole.contains($0.encoded()) } == (0..<8).map { $0 == 3 || $0 > 4 })
    let age = FieldPath(path: \Person.age)
    let ages: [Int?] = [nil, .min, 2, 3, 4, .max]
    let negated = try only(!Condition { $0.age < 3 }, age)
    let written = try only(Condition { $0.age >= 3 || $0.age == nil }, age)
    for set in [negated, written] {
      #expect(try ages.map { try set.contains($0.encoded()) } == ages.map { $0.map { $0 >= 3 } ?? true })
    }
  }

  @Test func `a condition that can't hold has no branch`() throws {
    let impossible: [PersonCondition] = [
      Condition { $0.year < 3 && $0.year > 3 }, Condition { $0.age == nil && $0.age > 1 },
      Condition { $0.year.isIn([]) }, Condition { $0.score < Double.nan }, Condition { $0.score == Double.nan },
      Condition { $0.isMember.isTrue && !$0.isMember.isTrue },
    ]
    for condition in impossible { #expect(try ConditionBranches(condition).branches.isEmpty) }
  }

  @Test func `two contains are two conditions, and never one range`() throws {
    let both = PersonCondition { $0.tags.contains("a") && $0.tags.contains("b") }
    #expect(try both.holds(for: Person(tags: ["a", "b"])) && !both.holds(for: Person(tags: ["a"])))
    #expect(try ConditionBranches(both).branches.first?.others.count == 2)
    #expect(try !(!both).holds(for: Person(tags: ["b", "a"])))
  }

  @Test func `nested lists of one operator are one list, and conditions of equal terms are equal`() {
    let first = PersonCondition { $0.year == 1 }
    let second = PersonCondition { $0.name == "a" }
    let third = PersonCondition { $0.isMember }
    #expect(((first && second) && third) == (first && (second && third)))
    #expect(((first || second) || third) == (first || (second || third)))
    #expect(!(!first) == first && first != second && (first && second) != (second && first))
    #expect(Set([first, second, !(!second), third, first]).count == 3)
    #expect(PersonCondition { $0.year == 1 } == first && PersonCondition { $0.year == 2 } != first)
    #expect(PersonCondition { $0.year <= 1 } != PersonCondition { $0.year < 1 })
  }

  @Test func `two thousand terms in a row are one level, and a condition that is nested too deeply is refused`() throws
  {
    var flat = PersonCondition { $0.year == 0 }
    for year in 1..<2_000 { flat = flat || Condition { $0.year == year } }
    #expect(flat.depth == 2)
    #expect(try ConditionBranches(flat).branches.count == 1 && flat.holds(for: Person(year: 1_999)))
    var deep = PersonCondition { $0.year == 0 }
    for level in 0..<100_000 {
      deep = level % 2 == 0 ? deep && Condition { $0.isMember } : deep || Condition { $0.name == "x" }
    }
    for use in [{ _ = try deep.holds(for: Person()) }, { _ = try ConditionBranches(deep) }] {
      let error = #expect(throws: DatabaseError.self) { try use() }
      #expect(error?.code == .queryTooComplex)
    }
    #expect(deep == deep && deep.hashValue == deep.hashValue)
  }

  @Test func `a condition that expands to more than 4,096 terms is refused`() throws {
    var product = PersonCondition { $0.tags.contains("x") || $0.name.contains("x") }
    for number in 0..<12 {
      product = product && Condition { $0.tags.contains("\(number)") || $0.name.contains("\(number)") }
    }
    let error = #expect(throws: DatabaseError.self) { _ = try ConditionBranches(product) }
    #expect(error?.code == .queryTooComplex && error?.message.contains("4,096") == true)
    #expect(try !product.holds(for: Person()))
    let values = PersonCondition { $0.year.isIn(0..<1_000_000) && $0.name.isIn((0..<100_000).map { "\($0)" }) }
    #expect(try ConditionBranches(values).branches.count == 1)
  }
}
