@testable import Varve
@testable import VarveInspection

/// The target for a value of the coder JSON.
enum JSONValueTarget {
  static func read(_ input: [UInt8]) throws {
    let coding = InspectedCoding(FuzzShapes())
    guard let text = try coding.json(input[...], shape: 0, coder: .json) else {
      throw FuzzFailure("JSON that has no text")
    }
    try require(!text.utf8.contains { $0 < 0x20 }, "a text of several lines: \(text)")
    let again = try objectsAgain { try coding.json(Array(text.utf8)[...], shape: 0, coder: .json) }
    try require(again == text, "the text \(text) is read as another")
  }
}

/// The target for a binary property list, read without the type of its content.
enum PropertyListTarget {
  static func read(_ input: [UInt8]) throws {
    let value = try BinaryPropertyList.value(input[...])
    try require(!value.json.isEmpty, "a value without a text")
  }
}
