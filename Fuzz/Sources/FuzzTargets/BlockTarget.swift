@testable import VarveEngine

/// The target for the content of a data block.
enum BlockTarget {
  static func read(_ input: ByteView) throws {
    try Block.validate(input)
    let block = Block(validated: input)
    let isRegular = try readRows(block)
    try search(block, isRegular: isRegular, probe: input.slice(0, min(input.count, 24)))
    if isRegular { try rebuild(block) }
  }

  /// Reads every byte of every row. Returns whether the rows ascend and the heads are those of their keys, which a
  /// checksum guarantees and `Block.validate` does not check.
  static func readRows(_ block: Block) throws -> Bool {
    var previous = ByteWriter()
    var current = ByteWriter()
    var isRegular = true
    var checksum: UInt32 = 0
    for row in 0..<block.rowCount {
      current.removeAll()
      block.appendKey(row, to: &current)
      try require(
        current.count >= block.keySizeMinimum && current.count <= block.keySizeMaximum,
        "row \(row) has a key of \(current.count) bytes, outside \(block.keySizeMinimum)...\(block.keySizeMaximum)")
      let trailer = block.trailer(row)
      try require(trailer.kind != nil, "row \(row) is of the unknown kind \(trailer.rawKind)")
      try require(trailer.sequence <= .maximum, "row \(row) has a sequence above 56 bits")
      checksum = CRC32C.extend(checksum, block.value(row))
      let key = InternalKey(current.view, trailer)
      if row > 0, InternalKey(previous.view, block.trailer(row - 1)).compare(key) >= 0 { isRegular = false }
      if row % Block.bundleSize == 0,
        block.head(row / Block.bundleSize) != current.view.head(from: block.prefixSize)
      {
        isRegular = false
      }
      swap(&previous, &current)
    }
    return isRegular
  }

  /// Searches for some keys. In a regular block the correct results are known.
  static func search(_ block: Block, isRegular: Bool, probe: ByteView) throws {
    var key = ByteWriter()
    let step = max(1, block.rowCount / 16)
    for row in stride(from: 0, to: block.rowCount, by: step) {
      key.removeAll()
      block.appendKey(row, to: &key)
      let found = block.lowerBound(key.view, block.trailer(row))
      try require(found >= 0 && found <= block.rowCount, "a search ends at \(found) of \(block.rowCount)")
      try require(block.hasKey(row, key.view), "row \(row) does not have its own key")
      try require(
        block.compare(row, InternalKey(key.view, block.trailer(row))) == 0, "row \(row) differs from itself")
      if isRegular { try require(found == row, "the search for row \(row) ends at \(found)") }
    }
    for size in [0, probe.count / 2, probe.count] {
      let target = probe.slice(0, size)
      let found = block.lowerBound(target, Trailer(seek: .maximum))
      try require(found >= 0 && found <= block.rowCount, "a search ends at \(found) of \(block.rowCount)")
      guard isRegular else { continue }
      let goal = InternalKey(target, Trailer(seek: .maximum))
      try require(found == 0 || block.compare(found - 1, goal) < 0, "the row before the found one is not smaller")
      try require(found == block.rowCount || block.compare(found, goal) >= 0, "the found row is smaller")
    }
  }

  /// Checks that the rows, built again, are the same rows.
  private static func rebuild(_ block: Block) throws {
    // A few bytes may represent many long keys, because their common prefix is stored once.
    guard block.rowCount * block.keySizeMaximum <= 64 << 10 else { return }
    var builder = BlockBuilder(capacity: 256)
    var key = ByteWriter()
    for row in 0..<block.rowCount {
      key.removeAll()
      block.appendKey(row, to: &key)
      builder.add(key.view, block.trailer(row), block.value(row))
    }
    let content = builder.finish()
    do throws(EngineError) {
      try Block.validate(content)
    } catch {
      throw FuzzFailure("a block that was built is not valid: \(error)")
    }
    let copy = Block(validated: content)
    try require(copy.rowCount == block.rowCount, "\(copy.rowCount) rows of \(block.rowCount) were built")
    var copied = ByteWriter()
    for row in 0..<block.rowCount {
      key.removeAll()
      block.appendKey(row, to: &key)
      copied.removeAll()
      copy.appendKey(row, to: &copied)
      try require(
        key.view == copied.view && block.trailer(row) == copy.trailer(row) && block.value(row) == copy.value(row),
        "row \(row) changed when it was built again")
    }
  }
}
