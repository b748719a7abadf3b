@testable import VarveEngine

/// The target for the content of a block of range tombstones.
enum RangeTombstoneTarget {
  static func read(_ input: ByteView) throws {
    let list = try RangeTombstoneBlock.read(input, path: "table", offset: 0)
    try check(list)
    var writer = ByteWriter()
    RangeTombstoneBlock.append(list, to: &writer)
    let copy = try again { () throws(EngineError) in
      try RangeTombstoneBlock.read(writer.view, path: "table", offset: 0)
    }
    try require(copy.count == list.count, "\(copy.count) fragments of \(list.count) were written")
    for index in 0..<list.count {
      try require(
        copy.start(index) == list.start(index) && copy.end(index) == list.end(index)
          && copy.sequences(index).elementsEqual(list.sequences(index)), "fragment \(index) changed")
    }
  }

  /// Checks the order of the fragments, and the results of searches at their ends.
  private static func check(_ list: RangeTombstoneList) throws {
    for index in 0..<list.count {
      try require(list.start(index) < list.end(index), "fragment \(index) covers nothing")
      if index > 0 {
        try require(list.end(index - 1) <= list.start(index), "fragment \(index) overlaps the one before")
      }
      let sequences = Array(list.sequences(index))
      try require(zip(sequences, sequences.dropFirst()).allSatisfy { $0 > $1 }, "sequences that don't descend")
      guard let newest = sequences.first, let oldest = sequences.last else {
        throw FuzzFailure("fragment \(index) has no sequence")
      }
      try require(newest <= SequenceNumber.maximum.value && oldest > 0, "a sequence of \(newest), or \(oldest)")
      let found = list.sequence(covering: list.start(index), at: .maximum)
      try require(found.value == newest, "the start of fragment \(index) is covered at \(found), not \(newest)")
      let later = list.sequence(covering: list.end(index), at: .maximum)
      let isNext = index + 1 < list.count && list.start(index + 1) == list.end(index)
      try require(isNext || later == .zero, "the end of fragment \(index) is covered at \(later)")
    }
  }
}
