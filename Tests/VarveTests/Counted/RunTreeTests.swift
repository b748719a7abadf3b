import EngineTestSupport
import Testing

@testable import Varve

/// Tests of the tree of runs in memory.
struct RunTreeTests {
  private static func pieces(_ tree: RunTree) -> [RunTree.Piece] {
    var pieces: [RunTree.Piece] = []
    tree.forEach { pieces.append($0) }
    return pieces
  }

  /// Compares every reading of a tree with an array of its runs.
  private static func compare(_ tree: RunTree, _ model: [RunTree.Piece], _ random: inout SeededRandom) {
    #expect(pieces(tree) == model)
    #expect(tree.total == model.reduce(0) { $0 + $1.count })
    for _ in 0..<8 {
      let key = random.bytes(random.below(3))
      let index = model.lastIndex { !ByteOrder.precedes(key, $0.separator) } ?? 0
      let run = tree.run(of: key)
      #expect(run.lower == model[index].separator && run.count == model[index].count)
      #expect(run.before == model[..<index].reduce(0) { $0 + $1.count })
      #expect(run.upper == (index + 1 < model.count ? model[index + 1].separator : nil))
      #expect(tree.run(before: run.lower)?.lower == (index > 0 ? model[index - 1].separator : nil))
      let offset = random.below(tree.total + 2) - 1
      var before = 0
      let found = model.first { piece in
        before += piece.count
        return offset < before
      }
      #expect(tree.run(at: offset)?.lower == (offset < 0 ? nil : found?.separator))
    }
  }

  @Test(arguments: 0..<UInt64(TestScale.count(2)))
  func `a tree finds the runs that an array has, whatever is added, divided and joined`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var tree = RunTree()
    var model = [RunTree.Piece(separator: [], count: 0)]
    var copies: [(RunTree, [RunTree.Piece])] = []
    var sizes = 0
    for step in 0..<800 {
      switch random.below(10) {
      case 0..<4:
        let key = random.bytes(random.below(4))
        let index = model.lastIndex { !ByteOrder.precedes(key, $0.separator) } ?? 0
        let number = random.below(50)
        model[index].count += number
        #expect(unsafe tree.add(number, at: key.span.bytes) == model[index].count)
      case 4..<8:
        // A run is divided into some, sometimes into more than fit into a node.
        let index = random.below(model.count)
        let upper = index + 1 < model.count ? model[index + 1].separator : nil
        let wanted = random.oneIn(40) ? 300 : random.below(4)
        let keys = Set((0..<wanted).map { _ in model[index].separator + random.bytes(1 + random.below(3)) })
        let inside = keys.filter { key in upper.map { ByteOrder.precedes(key, $0) } ?? true }
        let made =
          [RunTree.Piece(separator: model[index].separator, count: random.below(9))]
          + inside.sorted(by: ByteOrder.precedes).map { RunTree.Piece(separator: $0, count: random.below(9)) }
        tree.replace(from: model[index].separator, to: upper, by: made)
        model.replaceSubrange(index...index, with: made)
      case 8:
        // Some runs are joined, sometimes all that follow.
        let first = random.below(model.count)
        let end = random.oneIn(30) ? model.count : min(model.count, first + 1 + random.below(5))
        let joined = RunTree.Piece(
          separator: model[first].separator, count: model[first..<end].reduce(0) { $0 + $1.count })
        tree.replace(from: joined.separator, to: end < model.count ? model[end].separator : nil, by: [joined])
        model.replaceSubrange(first..<end, with: [joined])
      default:
        var marked: Set<[UInt8]> = []
        tree.forEachMarked { marked.insert($0.separator) }
        #expect(marked.isSubset(of: Set(model.map(\.separator))))
        tree.clearMarks()
        tree.forEachMarked { _ in Issue.record("a mark is left, seed \(seed)") }
        if copies.count < 8 { copies.append((tree, model)) }
      }
      sizes = max(sizes, model.count)
      if step % 16 == 0 { Self.compare(tree, model, &random) }
    }
    #expect(sizes > 64 * 4, "the tree has several levels")
    // Copies have kept what they had.
    for (tree, model) in copies { Self.compare(tree, model, &random) }
    // A tree that is made of the same runs finds the same.
    Self.compare(RunTree(model), model, &random)
  }

  @Test func `a mark tells which runs have changed`() {
    var tree = RunTree(
      (0..<500).map { RunTree.Piece(separator: $0 == 0 ? [] : [UInt8($0 / 250), UInt8($0 % 250)], count: 1) })
    unsafe tree.add(1, at: ([1, 3, 9] as [UInt8]).span.bytes)
    unsafe tree.add(1, at: ([0, 7] as [UInt8]).span.bytes)
    var marked: [[UInt8]] = []
    tree.forEachMarked { marked.append($0.separator) }
    #expect(marked == [[0, 7], [1, 3]])
  }

  @Test func `a separator is short, and between two keys`() {
    #expect(RunFormat.separator(after: [1, 2, 3], before: [1, 2, 4, 5]) == [1, 2, 4])
    #expect(RunFormat.separator(after: [1], before: [1, 0, 0]) == [1, 0])
    #expect(RunFormat.separator(after: [1, 255], before: [2]) == [2])
  }

  @Test func `a count of any size is read as it was written, and a damaged one is not`() {
    for count in [0, 1, 127, 128, 16_383, 16_384, RunFormat.countMaximum] {
      let (key, value) = (RunFormat.key([7]), RunFormat.value(count))
      #expect(unsafe RunFormat.piece(key.span.bytes, value.span.bytes) == RunTree.Piece(separator: [7], count: count))
    }
    for (key, value) in [
      ([], [1]), ([2], [1]), ([1], []), ([1], [0x80]), ([1], [1, 1]),
      ([1], [UInt8](repeating: 0xFF, count: 6) + [0x7F]),
      ([1], [UInt8](repeating: 0xFF, count: 9) + [1]),
    ] as [([UInt8], [UInt8])] {
      #expect(unsafe RunFormat.piece(key.span.bytes, value.span.bytes) == nil)
    }
  }
}
