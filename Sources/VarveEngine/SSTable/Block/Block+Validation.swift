/// The one look at a block's content after its checksum was found right: behind it every access to a
/// row is inside the content, whatever the bytes are.
///
/// It costs a few additions a bundle, and a few a row only for columns that have a width.
extension Block {
  /// Throws `.corruption` (or `.unsupportedFormat` for an entry kind of a later version) without a
  /// place: the caller knows it.
  static func validate(_ content: ByteView) throws(EngineError) {
    guard content.count >= headerSize else { throw .corruption("a block of \(content.count) bytes") }
    let layout = BlockLayout(content)
    guard layout.suffixWidth <= 4, layout.offsetWidth <= 4, layout.sequenceWidth <= 7, layout.kindWidth <= 1,
      layout.reserved == 0
    else { throw .corruption("a block with columns of impossible widths") }
    guard layout.valuesEnd == layout.valuesSize else {
      throw .corruption("a block whose sections don't take its \(content.count) bytes")
    }
    guard layout.prefixSize <= layout.keySizeMinimum, layout.keySizeMinimum <= layout.keySizeMaximum else {
      throw .corruption("a block whose key sizes contradict each other")
    }
    // From here on all sections are inside the content.
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
        throw .corruption("a block whose bundle \(index) is out of place")
      }
      let slot = index &* (Block.bundleSize &+ 1)
      var excess = 0
      if suffixes.width > 0 {
        let largest = limit &- bundle.prefixSize &- bundle.suffixSizeMinimum
        guard suffixes[slot] == 0 else { throw .corruption("a block whose bundle \(index) begins with a gap") }
        var isOrdered = true
        for place in 1...rows {
          let next = suffixes.integer(slot &+ place)
          let above = next &- excess
          isOrdered = isOrdered && above >= 0 && above <= largest
          excess = next
        }
        guard isOrdered else { throw .corruption("a block whose keys overlap in bundle \(index)") }
      }
      start &+= bundle.prefixSize &+ rows &* bundle.suffixSizeMinimum &+ excess
      guard start <= layout.keysSize else { throw .corruption("a block whose keys end behind it") }
    }
    guard start == layout.keysSize else { throw .corruption("a block with \(layout.keysSize) bytes of keys") }
  }

  private func validateValues(_ layout: BlockLayout) throws(EngineError) {
    var excess = 0
    if offsets.width > 0 {
      guard offsets[0] == 0 else { throw .corruption("a block whose values begin with a gap") }
      var isOrdered = true
      for row in 0..<rowCount {
        let next = offsets.integer(row &+ 1)
        isOrdered = isOrdered && next >= excess
        excess = next
      }
      guard isOrdered else { throw .corruption("a block whose values overlap") }
    }
    guard rowCount &* valueSizeMinimum &+ excess == layout.valuesSize else {
      throw .corruption("a block with \(layout.valuesSize) bytes of values")
    }
  }

  private func validateTrailers(_ layout: BlockLayout) throws(EngineError) {
    let base = trailerBase >> 8
    if sequences.width > 0, base &+ sequences.mask > SequenceNumber.maximum.value {
      for row in 0..<rowCount where base &+ sequences[row] > SequenceNumber.maximum.value {
        throw .corruption("a block with a sequence above 56 bits in row \(row)")
      }
    }
    if kinds.width == 0 {
      try Block.validateKind(UInt8(truncatingIfNeeded: trailerBase))
    } else {
      guard trailerBase & 0xff == 0 else { throw .corruption("a block with two columns of kinds") }
      var largest: UInt64 = 0
      for row in 0..<rowCount { largest = max(largest, kinds[row]) }
      try Block.validateKind(UInt8(truncatingIfNeeded: largest))
    }
  }

  /// Kinds are numbered without gaps: the largest decides.
  private static func validateKind(_ kind: UInt8) throws(EngineError) {
    guard EntryKind(rawValue: kind) != nil else {
      throw EngineError(.unsupportedFormat, "an entry of kind \(kind), which this version does not know")
    }
  }
}
