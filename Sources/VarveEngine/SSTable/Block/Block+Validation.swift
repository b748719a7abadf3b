/// The validation of a block's content after its checksum was verified. Afterwards every access to a row is inside
/// the content, whatever the bytes are.
///
/// It costs a few additions for each bundle, and a few for each row only in columns that have a width.
extension Block {
  /// Validates a content. Throws `.corruption` (or `.unsupportedFormat` for an entry kind of a later version) without
  /// a position, which the caller knows.
  static func validate(_ content: ByteView) throws(EngineError) {
    guard content.count >= headerSize else {
      throw .corruption("block has \(content.count) bytes; expected at least \(headerSize)")
    }
    let layout = BlockLayout(content)
    guard layout.suffixWidth <= 4, layout.offsetWidth <= 4, layout.sequenceWidth <= 7, layout.kindWidth <= 1,
      layout.reserved == 0
    else {
      throw .corruption(
        "block header has column widths out of range: suffix \(layout.suffixWidth), offset \(layout.offsetWidth), sequence \(layout.sequenceWidth), kind \(layout.kindWidth)"
      )
    }
    guard layout.valuesEnd == layout.valuesSize else {
      throw .corruption(
        "block sections leave \(layout.valuesEnd) bytes for values; the header says \(layout.valuesSize)")
    }
    guard layout.prefixSize <= layout.keySizeMinimum, layout.keySizeMinimum <= layout.keySizeMaximum else {
      throw .corruption(
        "block key sizes are inconsistent: prefix \(layout.prefixSize), minimum \(layout.keySizeMinimum), maximum \(layout.keySizeMaximum)"
      )
    }
    // From here on, all sections are known to be inside the content.
    let block = Block(validated: content)
    try block.validateKeys(layout)
    try block.validateValues(layout)
    try block.validateTrailers(layout)
  }

  private func validateKeys(_ layout: BlockLayout) throws(EngineError) {
    let limit = keySizeMaximum &- prefixSize
    var start = 0
    for index in 0..<bundleCount {
      let bundle = bundle(index)
      let rows = min(Block.bundleSize, rowCount &- index &* Block.bundleSize)
      guard unsafe bundle.base == keys + start, bundle.prefixSize &+ bundle.suffixSizeMinimum <= limit else {
        throw .corruption("bundle \(index) of the block is not at its expected offset \(start)")
      }
      let slot = index &* (Block.bundleSize &+ 1)
      var excess = 0
      if suffixes.width > 0 {
        let largest = limit &- bundle.prefixSize &- bundle.suffixSizeMinimum
        guard suffixes[slot] == 0 else {
          throw .corruption("bundle \(index) of the block begins at offset \(suffixes[slot]); expected 0")
        }
        var isOrdered = true
        for location in 1...rows {
          let next = suffixes.integer(slot &+ location)
          let above = next &- excess
          isOrdered = isOrdered && above >= 0 && above <= largest
          excess = next
        }
        guard isOrdered else { throw .corruption("keys of bundle \(index) of the block overlap or are too long") }
      }
      start &+= bundle.prefixSize &+ rows &* bundle.suffixSizeMinimum &+ excess
      guard start <= layout.keysSize else {
        throw .corruption("keys of the block end at \(start), past their section of \(layout.keysSize) bytes")
      }
    }
    guard start == layout.keysSize else {
      throw .corruption("keys of the block end at \(start); expected \(layout.keysSize)")
    }
  }

  private func validateValues(_ layout: BlockLayout) throws(EngineError) {
    var excess = 0
    if offsets.width > 0 {
      guard offsets[0] == 0 else { throw .corruption("values of the block begin at offset \(offsets[0]); expected 0") }
      var isOrdered = true
      for row in 0..<rowCount {
        let next = offsets.integer(row &+ 1)
        isOrdered = isOrdered && next >= excess
        excess = next
      }
      guard isOrdered else { throw .corruption("values of the block overlap: their offsets do not ascend") }
    }
    guard rowCount &* valueSizeMinimum &+ excess == layout.valuesSize else {
      throw .corruption(
        "values of the block end at \(rowCount &* valueSizeMinimum &+ excess); expected \(layout.valuesSize)")
    }
  }

  private func validateTrailers(_ layout: BlockLayout) throws(EngineError) {
    let base = trailerBase >> 8
    if sequences.width > 0, base &+ sequences.mask > SequenceNumber.maximum.value {
      for row in 0..<rowCount where base &+ sequences[row] > SequenceNumber.maximum.value {
        throw .corruption(
          "sequence number in row \(row) of the block is \(base &+ sequences[row]); at most 56 bits are allowed")
      }
    }
    if kinds.width == 0 {
      try Block.validateKind(UInt8(truncatingIfNeeded: trailerBase))
    } else {
      guard trailerBase & 0xff == 0 else {
        throw .corruption(
          "block has a column of kinds, and a common kind \(trailerBase & 0xff); expected one of the two")
      }
      var largest: UInt64 = 0
      for row in 0..<rowCount { largest = max(largest, kinds[row]) }
      try Block.validateKind(UInt8(truncatingIfNeeded: largest))
    }
  }

  /// Validates the largest kind. Kinds are numbered without gaps, so it decides for all of them.
  private static func validateKind(_ kind: UInt8) throws(EngineError) {
    guard EntryKind(rawValue: kind) != nil else {
      throw EngineError(.unsupportedFormat, "entry kind \(kind) is not known to this version")
    }
  }
}
