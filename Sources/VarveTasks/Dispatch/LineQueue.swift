/// Lines in the order in which they have their turns.
///
/// Complexity: amortized O(1) for each operation.
struct LineQueue {
  private var lines: [LineID] = []
  private var begin = 0

  var count: Int { lines.count - begin }
  var isEmpty: Bool { begin == lines.count }
  var first: LineID? { begin < lines.count ? lines[begin] : nil }

  mutating func append(_ line: LineID) { lines.append(line) }

  /// Puts a line before all others.
  mutating func prepend(_ line: LineID) {
    if begin > 0 {
      begin -= 1
      lines[begin] = line
    } else {
      lines.insert(line, at: 0)
    }
  }

  mutating func popFirst() -> LineID? {
    guard begin < lines.count else { return nil }
    defer {
      begin += 1
      if begin == lines.count {
        lines.removeAll(keepingCapacity: true)
        begin = 0
      } else if begin >= 4_096 {
        lines.removeFirst(begin)
        begin = 0
      }
    }
    return lines[begin]
  }
}

extension LineQueue: CustomStringConvertible {
  var description: String { "\(lines[begin...])" }
}
