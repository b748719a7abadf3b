/// Copying whole blocks, still compressed, from one table to the next.
///
/// A compaction that finds no key of another input inside a block, and no entry in it to drop, need not decompress
/// values, merge, compress and compute the checksum again. What remains is one copy of the compressed bytes, and the
/// hashes of the keys for the filter, which are computed again from the decoded keys.
extension TableBuilder {
  /// Returns whether a copy is allowed and worthwhile: the codec is right, the block is large enough, and the block
  /// that is being built would not be left too small by being closed now.
  func canCopyBlock(_ iterator: TableIterator) -> Bool {
    guard let entry = iterator.blockEntry, iterator.isAtBlockStart, let stored = iterator.storedBlock else {
      return false
    }
    let codec = stored[stored.count - BlockTrailer.size]
    guard codec == options.compression.rawValue || codec == Compression.none.rawValue else { return false }
    return Int(entry.handle.contentSize) >= options.blockSize / 2
      && (block.isEmpty || block.estimatedSize >= options.blockSize / 2)
  }

  /// Copies the block at whose first row the iterator is positioned. The caller then continues with `nextBlock`.
  ///
  /// Requires an iterator for compaction at the start of a block whose rows are all after the rows added so far.
  func copyBlock(from iterator: TableIterator) throws(EngineError) {
    guard iterator.isAtBlockStart, let stored = iterator.storedBlock, let entry = iterator.blockEntry else {
      fatalError("a block is copied from its start by an iterator for compaction: ask canCopyBlock first")
    }
    try closeBlock()
    let rows = iterator.block
    let firstKey = iterator.userKey
    let isNewKey: Bool
    if properties.entryCount == 0 {
      isNewKey = true
      properties.smallestKey = firstKey.bytes
      properties.smallestTrailer = iterator.trailer
    } else {
      let order = lastKey.view.compare(firstKey)
      guard order < 0 || (order == 0 && iterator.trailer.word < lastTrailer.word) else {
        fatalError("a copied block must follow the entries that the table has")
      }
      isNewKey = order < 0
    }
    emitPending(before: firstKey, isNewKey: isNewKey)
    let handle = try file.append(
      stored: stored, contentSize: entry.handle.contentSize, from: (iterator.tableID, entry.handle.offset))
    addKeys(rows, firstIsNew: isNewKey)
    lastTrailer = rows.trailer(rows.rowCount - 1)
    properties.copiedBlockCount += 1
    let flags = (entry.flags & IndexEntry.severalVersions) | (isNewKey ? 0 : IndexEntry.continuesBefore)
    closed(entry.with(offset: handle.offset, flags: flags))
  }

  /// Counts the keys of a copied block and adds them to the filter. Afterwards `lastKey` is the last of them.
  private func addKeys(_ rows: Block, firstIsNew: Bool) {
    var previous = ByteWriter(capacity: rows.keySizeMaximum)
    for row in 0..<rows.rowCount {
      lastKey.removeAll()
      rows.appendKey(row, to: &lastKey)
      properties.keysSize += UInt64(lastKey.count)
      let isNew = row == 0 ? firstIsNew : lastKey.view != previous.view
      if isNew {
        properties.keyCount += 1
        if options.bloomBitsPerKey > 0 { filter.add(KeyHash.hash(lastKey.view)) }
      }
      swap(&lastKey, &previous)
    }
    swap(&lastKey, &previous)
    properties.valuesSize += UInt64(rows.valuesSize)
  }
}
