@testable import VarveEngine

/// The target for the content of an index block.
enum IndexTarget {
  static func read(_ input: ByteView) throws {
    try IndexBlock.validate(input)
    let index = IndexBlock(validated: input)
    let isRegular = try BlockTarget.readRows(index.separators)
    try BlockTarget.search(index.separators, isRegular: isRegular, probe: input.slice(0, min(input.count, 24)))
    try rebuild(index)
  }

  /// Checks that the entries, built again, are the same entries.
  private static func rebuild(_ index: IndexBlock) throws {
    var builder = IndexColumnsBuilder()
    for row in 0..<index.rowCount { builder.add(index.entries.entry(row)) }
    var writer = ByteWriter()
    builder.append(firstOffset: index.rowCount > 0 ? index.entries.handle(0).offset : 0, to: &writer)
    // The columns are validated at the position before a block.
    var block = BlockBuilder(capacity: 256)
    writer.append(block.finish())
    do throws(EngineError) {
      try IndexColumns.validate(writer.view, rowCount: index.rowCount)
    } catch {
      throw FuzzFailure("columns that were built are not valid: \(error)")
    }
    let copy = IndexColumns(writer.view, rowCount: index.rowCount)
    for row in 0..<index.rowCount {
      try require(
        copy.entry(row) == index.entries.entry(row),
        "entry \(row) changed: \(index.entries.entry(row)) to \(copy.entry(row))")
    }
  }
}
