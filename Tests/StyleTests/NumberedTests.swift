import Foundation
import Testing

/// Checks that each item of two numbered lists of defects and recommendations, which were collected from other
/// systems, has a test.
///
/// A test has the number in its name, `D7: …` or `1.1, REC 89: …`; the exceptions are listed here with their reasons.
struct NumberedTests {
  private static let tests = Repository.files(
    in: ["VarveTests", "VarveCoderTests", "VarveThreadTests", "VarveDamageTests", "VarveModelTests"].map {
      "Tests/\($0)"
    }, ["swift"])

  /// Returns the numbers that the names of tests begin with.
  private static func numbers(_ files: [SourceFile]) -> Set<String> {
    var numbers: Set<String> = []
    for line in files.flatMap(\.lines) {
      guard let name = line.firstRange(of: "func `"), let colon = line.firstRange(of: ": ") else { continue }
      guard name.upperBound < colon.lowerBound else { continue }
      for number in line[name.upperBound..<colon.lowerBound].split(separator: ",") {
        numbers.insert(number.trimmingCharacters(in: .whitespaces))
      }
    }
    return numbers
  }

  @Test func `every defect of stores has a test with its number`() {
    // Tests elsewhere have numbers of another list, of transactions and extensions, that begin with the same letter.
    let tests = Repository.files(in: ["Tests/VarveTests/Stores", "Tests/VarveTests/Indexes"], ["swift"])
    let missing = Set((1...17).map { "D\($0)" }).subtracting(Self.numbers(tests))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `every recommendation on rows, transactions and extensions has a test with its number`() {
    // Recommendations 91 to 94 are about secondary indexes.
    let recommendations = (Array(85...90) + Array(95...100)).map { "REC \($0)" }
    let sections = ["1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5"]
    let missing = Set(recommendations + sections).subtracting(Self.numbers(Self.tests))
    #expect(missing.isEmpty, "\(missing.sorted())")
  }

  @Test func `numbers are read from the names of tests alone`() {
    let text = """
      // D1: not a test
      @Test func `1.1, REC 89: two numbers`() {}
      func `D7: one`(location: Location) { print("D8: none") }
      func `a sentence without`() {}
      """
    let found = Self.numbers([SourceFile(path: "Tests/A.swift", text: text)])
    #expect(found == ["1.1", "REC 89", "D7"])
  }
}
