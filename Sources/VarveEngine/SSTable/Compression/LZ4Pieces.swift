internal import CLZ4

/// Compresses a large content to one LZ4 block, piece by piece.
///
/// # Joining
/// A block is a list of sequences: a run of literals, whose length precedes it, and a match. The last sequence has
/// literals only. The library compresses each piece of the value to a block of its own, whose matches may lie in the
/// pieces before it. The literals at the end of one block are joined with those at the start of the next:
///
/// ```
/// piece 1   token  literals  match  ···  token  literals ┐
/// piece 2                                                ├──▶  token  literals  match
///           token  literals ─────────────────────────────┘
/// ```
///
/// Literals that wait are not copied: they are a range of the value.
enum LZ4Pieces {
  private static let pieceSize = 256 << 10
  /// The value of a length's four bits that says that more bytes of the length follow.
  private static let lengthMask = 15

  /// Compresses `value` followed by `end`, which becomes literals, and passes the parts of the block to `write`.
  ///
  /// `end` must have at least the twelve bytes that end each block without a match. Returns false if the block would
  /// have more than `sizeMaximum` bytes, or if the library fails.
  static func compress(
    _ value: ByteView, then end: ByteView, sizeMaximum: Int, _ write: (ByteView) throws(EngineError) -> Void
  ) throws(EngineError) -> Bool {
    guard let stream = unsafe LZ4_createStream() else { return false }
    defer { _ = unsafe LZ4_freeStream(stream) }
    let packed = try BlockMemory.allocate(Int(LZ4_compressBound(Int32(pieceSize))))
    var head = ByteWriter(capacity: 64)
    var size = 0
    /// The position of the literals that are not written yet, and of the next piece.
    var literals = 0
    var position = 0
    while position < value.count {
      let piece = value.slice(position, min(position + pieceSize, value.count))
      let packedSize = unsafe LZ4_compress_fast_continue(
        stream, piece.base.assumingMemoryBound(to: CChar.self), packed.base.assumingMemoryBound(to: CChar.self),
        Int32(piece.count), Int32(packed.count), 1)
      guard packedSize > 0 else { return false }
      let block = packed.view.slice(0, Int(packedSize))
      if let middle = Middle(of: block) {
        let run = value.slice(literals, position + middle.firstLiterals)
        head.removeAll()
        append(run.count, matchBits: block[0] & UInt8(lengthMask), to: &head)
        let rest = block.slice(middle.start, middle.end)
        size += head.count + run.count + rest.count
        guard size <= sizeMaximum else { return false }
        try write(head.view)
        try write(run)
        try write(rest)
        literals = position + piece.count - middle.lastLiterals
      }
      position += piece.count
      guard size + position - literals <= sizeMaximum else { return false }
    }
    let run = value.slice(literals, value.count)
    head.removeAll()
    append(run.count + end.count, matchBits: 0, to: &head)
    guard size + head.count + run.count + end.count <= sizeMaximum else { return false }
    try write(head.view)
    try write(run)
    try write(end)
    return true
  }

  /// Appends the token of a sequence and the rest of the length of its literals.
  private static func append(_ literalCount: Int, matchBits: UInt8, to head: inout ByteWriter) {
    head.append(integer: UInt8(min(literalCount, lengthMask)) << 4 | matchBits)
    guard literalCount >= lengthMask else { return }
    let rest = literalCount - lengthMask
    head.append(repeating: 255, count: rest / 255)
    head.append(integer: UInt8(rest % 255))
  }

  /// The part of a block from the first match up to the last sequence, and the literals before and after it.
  private struct Middle {
    let firstLiterals: Int
    let start: Int
    let end: Int
    let lastLiterals: Int

    /// Reads a block that the library made. Returns nil if it has no match.
    init?(of block: ByteView) {
      var position = 0
      let first = Middle.passLiterals(of: block, &position)
      guard position < block.count else { return nil }
      firstLiterals = first.literals
      start = position
      Middle.passMatch(of: block, first.token, &position)
      while true {
        let sequence = position
        let (token, literals) = Middle.passLiterals(of: block, &position)
        guard position < block.count else {
          end = sequence
          lastLiterals = literals
          return
        }
        Middle.passMatch(of: block, token, &position)
      }
    }

    @inline(__always)
    private static func passLiterals(of block: ByteView, _ position: inout Int) -> (token: UInt8, literals: Int) {
      let token = block[position]
      position += 1
      let literals = length(Int(token >> 4), of: block, &position)
      position += literals
      return (token, literals)
    }

    /// Passes the two bytes of a match's offset, and the rest of its length.
    @inline(__always)
    private static func passMatch(of block: ByteView, _ token: UInt8, _ position: inout Int) {
      position += 2
      _ = length(Int(token) & lengthMask, of: block, &position)
    }

    @inline(__always)
    private static func length(_ bits: Int, of block: ByteView, _ position: inout Int) -> Int {
      var length = bits
      guard bits == lengthMask else { return length }
      while true {
        let byte = block[position]
        position += 1
        length += Int(byte)
        if byte < 255 { return length }
      }
    }
  }
}
