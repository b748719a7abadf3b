/// A part of the statistics that exists once for each level of the tree.
protocol NumberedLevel: Codable, Hashable, Sendable {
  /// The number of the level.
  var level: Int { get set }

  /// Creates the part of an empty level.
  init()
}

/// One element for each level, from level 0. Its code contains only those levels that are not empty.
struct ByLevel<Element: NumberedLevel>: Codable, Hashable, Sendable {
  private(set) var elements: [Element]

  init(elements: [Element]) { self.elements = elements }

  /// The elements of empty levels.
  static var empty: [Element] { (0..<Limits.levelCount).map(empty) }

  private static func empty(_ level: Int) -> Element {
    var element = Element()
    element.level = level
    return element
  }

  init(from decoder: any Decoder) throws {
    elements = Self.empty
    for element in try [Element](from: decoder) {
      guard elements.indices.contains(element.level) else {
        throw DecodingError.dataCorrupted(
          DecodingError.Context(
            codingPath: decoder.codingPath,
            debugDescription: "level \(element.level) was found; the last level is \(Limits.levelCount - 1)"))
      }
      elements[element.level] = element
    }
  }

  func encode(to encoder: any Encoder) throws {
    try elements.filter { $0 != Self.empty($0.level) }.encode(to: encoder)
  }
}
