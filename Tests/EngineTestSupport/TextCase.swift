/// A test written as text: commands, each followed by the lines that are expected from it.
///
///     define
///     a#5,put=x b#7,del
///     a#1,put=w
///     ----
///     iterate at=6
///     first
///     next
///     ----
///     a=x
///     end
///
/// A command is a line with its name and `name=value` arguments. The lines after it up to `----` are its input, and
/// the lines after that up to the next blank line (or the end) are the expected output. Lines that begin with `//`
/// are ignored. `TextCase.run` returns the same text with the actual output in place of the expected one: a test
/// compares the two, and its failure shows the case as it should be written.
public struct TextCase {
  /// A command with its input.
  public struct Command {
    /// The first word.
    public let name: String
    /// The arguments: the words after the first, in the form `name=value`.
    public let arguments: [String: String]
    /// The lines up to `----`.
    public let input: [String]

    /// The words of all input lines.
    public var words: [String] { input.flatMap { $0.split(separator: " ").map(String.init) } }

    /// The entries of each input line; each line is one source.
    public var sources: [[TextEntry]] {
      input.map { line in
        line.split(separator: " ").map { word in
          guard let entry = TextEntry(word) else {
            fatalError("\(word) is not an entry: write key#sequence,kind=value")
          }
          return entry
        }
      }
    }
  }

  /// Runs each command of `text`, and returns the text with the actual output.
  public static func run(_ text: String, _ body: (Command) -> [String]) -> String {
    var result: [String] = []
    for block in blocks(text) {
      let divider = block.firstIndex(of: "----") ?? block.endIndex
      let head = block[0].split(separator: " ").map(String.init)
      var arguments: [String: String] = [:]
      for word in head.dropFirst() {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        arguments[String(parts[0])] = parts.count > 1 ? String(parts[1]) : ""
      }
      let command = Command(name: head[0], arguments: arguments, input: Array(block[1..<divider]))
      result.append((Array(block[..<divider]) + ["----"] + body(command)).joined(separator: "\n"))
    }
    return result.joined(separator: "\n\n")
  }

  /// Returns `text` without comments and repeated blank lines, to compare with the result of `run`.
  public static func normalized(_ text: String) -> String {
    blocks(text).map { $0.joined(separator: "\n") }.joined(separator: "\n\n")
  }

  private static func blocks(_ text: String) -> [[String]] {
    var blocks: [[String]] = [[]]
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      var words = line[...]
      while words.first == " " { words.removeFirst() }
      while words.last == " " { words.removeLast() }
      if words.hasPrefix("//") { continue }
      if words.isEmpty {
        if blocks[blocks.count - 1].isEmpty == false { blocks.append([]) }
      } else {
        blocks[blocks.count - 1].append(String(words))
      }
    }
    return blocks.filter { !$0.isEmpty }
  }
}
