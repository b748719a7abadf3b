/// The types that a file declares, found in its stripped source.
extension SwiftCode {
  /// Returns the names of the types at the outermost level that other files can name.
  static func topLevelTypes(_ code: String) -> [String] {
    code.split(separator: "\n").compactMap { line in
      guard let first = line.first, first != " ", !line.hasPrefix("private "), !line.hasPrefix("fileprivate ") else {
        return nil
      }
      return declaredType(line)
    }
  }

  /// Returns the names of all types that a file declares, and of its generic parameters.
  static func nestedTypes(_ code: String) -> [String] {
    code.split(separator: "\n").compactMap { declaredType($0) }
  }

  private static func declaredType(_ line: Substring) -> String? {
    let keywords: Set<Substring> = ["struct", "class", "enum", "protocol", "actor", "typealias", "case"]
    let words = SwiftCode.words(String(line)).map(\.text)
    guard let index = words.firstIndex(where: { keywords.contains($0) }), index + 1 < words.count else { return nil }
    // An attribute of SPI has a name before the declaration.
    let modifiers = words.firstIndex(of: "_spi").map { words[min($0 + 2, index)..<index] } ?? words[..<index]
    let isDeclaration = modifiers.allSatisfy { $0.first?.isLowercase ?? false || $0 == "unchecked" }
    let name = words[index + 1]
    return isDeclaration && name.first?.isUppercase == true ? String(name) : nil
  }
}
