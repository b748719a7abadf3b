/// A step of a coding path: a field, an entry of a map, or an element of an array.
struct PathKey: CodingKey, CustomStringConvertible {
  let stringValue: String
  let intValue: Int?

  init(stringValue: String) {
    self.stringValue = stringValue
    intValue = nil
  }

  init(intValue: Int) {
    stringValue = "Index \(intValue)"
    self.intValue = intValue
  }

  /// The key of `superEncoder()` and `superDecoder()` without an argument.
  static let `super` = PathKey(stringValue: "super")

  var description: String { stringValue }

  /// Returns a text such as `author.books[3].title`, or `the value itself` for the top level.
  static func text(of path: [any CodingKey]) -> String {
    var text = ""
    for key in path {
      if let index = key.intValue {
        text += "[\(index)]"
      } else {
        text += (text.isEmpty ? "" : ".") + key.stringValue
      }
    }
    return text.isEmpty ? "the value itself" : text
  }
}
