extension SortedRun {
  /// Returns the run without the tables `deleted` and with the tables `added`, each in any order.
  ///
  /// Throws `.corruption` if a deleted table is not in the run, or an added one overlaps a neighbor. `level` is for the
  /// message.
  ///
  /// Complexity: changed chunks are rebuilt; only the references to all others are copied.
  func applying(
    deleted: [TableMetadata], added: [TableMetadata], level: Int
  ) throws(EngineError) -> SortedRun {
    let added = added.count > 1 ? added.sorted(by: TableMetadata.isSmallerFirst) : added
    var gone: [Int: Set<Int>] = [:]
    for table in deleted {
      let location = try location(of: table, level)
      gone[location.chunk, default: []].insert(location.index)
    }
    var edit = RunEdit(chunks, level: level)
    let changed = gone.count > 1 ? gone.keys.sorted() : Array(gone.keys)
    var nextGone = 0
    var nextAdded = 0
    while nextGone < changed.count || nextAdded < added.count {
      let chunkOfAdded = nextAdded < added.count ? chunk(toAdd: added[nextAdded]) : Int.max
      let chunk = min(nextGone < changed.count ? changed[nextGone] : Int.max, chunkOfAdded)
      try edit.keep(before: chunk)
      var end = nextAdded
      while end < added.count, self.chunk(toAdd: added[end]) == chunk { end += 1 }
      try edit.change(chunk, without: gone[chunk] ?? [], adding: added[nextAdded..<end])
      nextAdded = end
      if nextGone < changed.count, changed[nextGone] == chunk { nextGone += 1 }
    }
    try edit.keep(before: chunks.count)
    return SortedRun(chunks: edit.finish())
  }

  /// Returns the index of the chunk into which an added table goes, or 0 in an empty run.
  private func chunk(toAdd table: TableMetadata) -> Int {
    max(min(chunkIndex(notBefore: table.smallest), chunks.count - 1), 0)
  }

  private func location(of table: TableMetadata, _ level: Int) throws(EngineError) -> (chunk: Int, index: Int) {
    let chunk = chunkIndex(notBefore: table.smallest)
    if chunk < chunks.count {
      let index = chunks[chunk].firstIndex(notBefore: table.smallest)
      if index < chunks[chunk].tables.count, chunks[chunk].tables[index].number == table.number {
        return (chunk, index)
      }
    }
    throw .corruption("table \(table.number) is deleted from level \(level), where it is not")
  }
}

/// Builds the chunks of the next run from left to right.
private struct RunEdit {
  private let chunks: [TableChunk]
  private let level: Int
  private var result: [TableChunk] = []
  /// The number of `chunks` that were taken over or changed.
  private var takenCount = 0
  /// The tables of changed chunks that are not in the result yet.
  private var pending: [TableMetadata] = []
  /// The last table so far, and whether the edit added it.
  private var last: TableMetadata?
  private var isLastNew = false

  init(_ chunks: [TableChunk], level: Int) {
    self.chunks = chunks
    self.level = level
    result.reserveCapacity(chunks.count + 2)
  }

  /// Takes over the unchanged chunks before `end`.
  mutating func keep(before end: Int) throws(EngineError) {
    guard takenCount < end else { return }
    if isLastNew, let last { try check(last, endsBefore: chunks[takenCount].tables[0]) }
    if !pending.isEmpty {
      if pending.count < TableChunk.countMinimum {
        pending += chunks[takenCount].tables
        takenCount += 1
      }
      seal()
    }
    result += chunks[takenCount..<end]
    takenCount = end
    last = chunks[end - 1].tables.last
    isLastNew = false
  }

  /// Rebuilds a chunk without the tables at `gone` and with added tables, in key order. In an empty run no chunk exists
  /// yet.
  mutating func change(
    _ chunk: Int, without gone: Set<Int>, adding added: ArraySlice<TableMetadata>
  ) throws(EngineError) {
    guard chunk < chunks.count else {
      for table in added { try append(table, isNew: true) }
      return
    }
    let old = chunks[chunk]
    var index = 0
    for table in added {
      // The tables before this index end before the added table.
      let location = old.firstIndex(notBefore: table.smallest)
      try append(old.tables[index..<max(location, index)], from: index, without: gone)
      try append(table, isNew: true)
      index = max(location, index)
    }
    try append(old.tables[index...], from: index, without: gone)
    takenCount = chunk + 1
  }

  private mutating func append(
    _ tables: ArraySlice<TableMetadata>, from first: Int, without gone: Set<Int>
  ) throws(EngineError) {
    for (offset, table) in tables.enumerated() where gone.isEmpty || !gone.contains(first + offset) {
      try append(table, isNew: false)
    }
  }

  private mutating func append(_ table: TableMetadata, isNew: Bool) throws(EngineError) {
    if isNew || isLastNew, let last { try check(last, endsBefore: table) }
    pending.append(table)
    last = table
    isLastNew = isNew
  }

  private func check(_ left: TableMetadata, endsBefore right: TableMetadata) throws(EngineError) {
    guard left.number != right.number else {
      throw .corruption("table \(right.number) is added to level \(level), where it is already")
    }
    guard left.endsBefore(right) else {
      throw .corruption("tables \(left.number) and \(right.number) of level \(level) overlap")
    }
  }

  private mutating func seal() {
    result += TableChunk.cut(pending)
    pending.removeAll()
  }

  /// Returns the chunks, after all were kept or changed.
  mutating func finish() -> [TableChunk] {
    guard !pending.isEmpty else { return result }
    if pending.count < TableChunk.countMinimum, let previous = result.popLast() { pending = previous.tables + pending }
    seal()
    return result
  }
}
