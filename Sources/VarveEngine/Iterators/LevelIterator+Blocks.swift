/// The open table's blocks, as the level's.
extension LevelIterator: BlockSource where Table: BlockSource & ~Copyable {
  var startsPlainBlock: Bool { withCurrent { $0.startsPlainBlock } }

  func blockEnds(before limit: InternalKey) -> Bool { withCurrent { $0.blockEnds(before: limit) } }

  mutating func nextBlock() throws(EngineError) {
    try withCurrent { (table) throws(EngineError) in try table.nextBlock() }
    try didMoveCurrent()
  }
}
