import Foundation

/// The public asynchronous calls of a module, as its sources declare them.
enum PublicCalls {
  /// Returns the names such as `Store.load(ids:)` of all asynchronous functions and properties that are public.
  static func asynchronous(in module: String) throws -> Set<String> {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources/\(module)")
    var names: Set<String> = []
    for path in FileManager.default.subpaths(atPath: root.path) ?? [] where path.hasSuffix(".swift") {
      names.formUnion(asynchronous(of: try String(contentsOf: root.appending(path: path), encoding: .utf8)))
    }
    return names
  }

  private static func asynchronous(of text: String) -> Set<String> {
    let lines = text.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("//") }
    let code = lines.joined(separator: "\n")
    let declaration =
      /(?m)^(?:public |final )*(?:extension|struct|class|protocol) (?<type>[A-Za-z]+)|public (?:static |mutating )*func (?<function>[a-zA-Z]+)|public (?:static )?var (?<property>[a-zA-Z]+)[^={\n]*\{\s*get async/
    var names: Set<String> = []
    var type = ""
    for match in code.matches(of: declaration) {
      if let found = match.output.type { type = String(found) }
      if let found = match.output.property { names.insert("\(type).\(found)") }
      guard let function = match.output.function else { continue }
      let (labels, rest) = parameters(code[match.range.upperBound...])
      guard rest.drop(while: \.isWhitespace).hasPrefix("async") else { continue }
      names.insert("\(type).\(function)(\(labels.map { $0 + ":" }.joined()))")
    }
    return names
  }

  /// Returns the labels of the parameters of a declaration, and what comes after them.
  private static func parameters(_ code: Substring) -> (labels: [String], rest: Substring) {
    var labels: [String] = []
    var depth = 0
    var parameter = ""
    var previous: Character = " "
    guard var index = code.firstIndex(of: "(") else { return ([], "") }
    while index < code.endIndex {
      let character = code[index]
      index = code.index(after: index)
      let isEnd = depth == 1 && (character == "," || character == ")")
      if isEnd, let label = parameter.split(whereSeparator: { $0.isWhitespace || $0 == ":" }).first {
        labels.append(String(label.drop { $0 == "@" }))
      }
      if "([{<".contains(character) { depth += 1 }
      // The arrow of a function type closes nothing.
      if ")]}".contains(character) || character == ">" && previous != "-" { depth -= 1 }
      previous = character
      if depth == 0 { break }
      if isEnd { parameter = "" } else if depth > 1 || character != "(" { parameter.append(character) }
    }
    return (labels, code[index...])
  }
}
