import EngineTestSupport

@testable import Varve

extension Part {
  /// Throws unless the counts of a counted part are those of its entries: in all, before each of some keys, and on disk
  /// run by run.
  func requireRightCounts() throws {
    var keys: [[UInt8]] = []
    var cursor = try cursor(keysOnly: true)
    try cursor.forEach { key, _ in keys.append(key) }
    guard try count() == keys.count else { throw WrongCounts("\(try count()) of \(keys.count) entries are counted") }
    for offset in stride(from: 0, to: keys.count, by: max(1, keys.count / 16)) {
      guard try self.offset(of: keys[offset]) == offset, try entry(at: offset)?.key == keys[offset] else {
        throw WrongCounts("the entry at \(offset) is counted at \(try self.offset(of: keys[offset]))")
      }
    }
    guard try entry(at: keys.count) == nil else { throw WrongCounts("there is an entry after the last") }
    try requireRightRuns(keys)
  }

  /// Throws unless the runs on disk are those of keys. Only reads see what is on disk.
  private func requireRightRuns(_ keys: [[UInt8]]) throws {
    guard open.writer == nil, let transaction = open.reader, let family = open.family(slot),
      let runs = open.registered.traits.companions[slot].flatMap({ open.family($0) })
    else { return }
    let tree = try ReadTransaction.tree(of: family, runs, at: transaction.snapshot)
    var pieces: [RunTree.Piece] = []
    tree.forEach { pieces.append($0) }
    for (index, piece) in pieces.enumerated() {
      let upper = index + 1 < pieces.count ? pieces[index + 1].separator : nil
      let count = keys.count { key in
        !ByteOrder.precedes(key, piece.separator) && (upper.map { ByteOrder.precedes(key, $0) } ?? true)
      }
      guard count == piece.count else {
        throw WrongCounts("run \(index) of \(pieces.count) has \(count) entries, and \(piece.count) are counted")
      }
    }
  }
}

struct WrongCounts: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
