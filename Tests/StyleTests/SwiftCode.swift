/// A scanner that blanks comments and the content of string literals in Swift source, so that only code is left.
/// Lines and columns are preserved. Interpolations inside literals are blanked too.
enum SwiftCode {
  static func stripped(_ text: String) -> String {
    var scanner = Scanner(bytes: Array(text.utf8))
    scanner.run()
    return String(decoding: scanner.output, as: UTF8.self)
  }

  private struct Scanner {
    let bytes: [UInt8]
    var output: [UInt8] = []
    var index = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func run() {
      output.reserveCapacity(bytes.count)
      while index < bytes.count {
        if matches("//") {
          while index < bytes.count, bytes[index] != 0x0a { blank() }
        } else if matches("/*") {
          blankBlockComment()
        } else if let pounds = literalStart() {
          blankLiteral(pounds)
        } else {
          output.append(bytes[index])
          index += 1
        }
      }
    }

    private func matches(_ text: String, at offset: Int = 0) -> Bool {
      bytes.dropFirst(index + offset).starts(with: text.utf8)
    }

    private mutating func blank(_ count: Int = 1) {
      for _ in 0..<count where index < bytes.count {
        output.append(bytes[index] == 0x0a ? 0x0a : 0x20)
        index += 1
      }
    }

    private mutating func blankBlockComment() {
      var depth = 0
      repeat {
        if matches("/*") {
          depth += 1
          blank(2)
        } else if matches("*/") {
          depth -= 1
          blank(2)
        } else {
          blank()
        }
      } while depth > 0 && index < bytes.count
    }

    /// Returns the number of `#` of a literal that begins here, or `nil` if none begins.
    private func literalStart() -> Int? {
      var pounds = 0
      while index + pounds < bytes.count, bytes[index + pounds] == 0x23 { pounds += 1 }
      return index + pounds < bytes.count && bytes[index + pounds] == 0x22 ? pounds : nil
    }

    private mutating func blankLiteral(_ pounds: Int) {
      let fence = String(repeating: "#", count: pounds)
      let quote = matches("\"\"\"", at: pounds) ? "\"\"\"" : "\""
      blank(pounds + quote.utf8.count)
      while index < bytes.count, !matches(quote + fence) {
        if matches("\\" + fence + "(") {
          blank(2 + pounds)
          blankInterpolation()
        } else if matches("\\" + fence) {
          blank(2 + pounds)
        } else {
          blank()
        }
      }
      blank(quote.utf8.count + pounds)
    }

    private mutating func blankInterpolation() {
      var depth = 1
      while index < bytes.count, depth > 0 {
        if let pounds = literalStart() {
          blankLiteral(pounds)
          continue
        }
        if bytes[index] == 0x28 { depth += 1 }
        if bytes[index] == 0x29 { depth -= 1 }
        blank()
      }
    }
  }

  /// Returns the words of stripped source with their lines.
  static func words(_ stripped: String) -> [(text: Substring, line: Int)] {
    var words: [(text: Substring, line: Int)] = []
    for (number, line) in stripped.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      for word in line.split(whereSeparator: { !isWordCharacter($0) }) { words.append((word, number + 1)) }
    }
    return words
  }

  private static func isWordCharacter(_ character: Character) -> Bool {
    character == "_" || character.isLetter || character.isNumber
  }
}
