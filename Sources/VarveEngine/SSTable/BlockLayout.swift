/// The header of a block's content and the offsets of its sections, as `Block` draws them.
///
/// The header may hold anything: 32-bit counts times at most eight bytes don't overflow, and
/// `Block.validate` compares the sum with the content's size.
struct BlockLayout {
  let rowCount: Int
  let keysSize: Int
  let valuesSize: Int
  let valueSizeMinimum: Int
  let trailerBase: UInt64
  let prefixSize: Int
  let keySizeMinimum: Int
  let keySizeMaximum: Int
  let suffixWidth: Int
  let offsetWidth: Int
  let sequenceWidth: Int
  let kindWidth: Int
  let reserved: UInt16

  /// Reads the header, which `content` has.
  @inline(__always)
  init(_ content: ByteView) {
    rowCount = Int(content.load(0, as: UInt32.self))
    keysSize = Int(content.load(4, as: UInt32.self))
    valuesSize = Int(content.load(8, as: UInt32.self))
    valueSizeMinimum = Int(content.load(12, as: UInt32.self))
    trailerBase = content.load(16, as: UInt64.self)
    prefixSize = Int(content.load(24, as: UInt16.self))
    keySizeMinimum = Int(content.load(26, as: UInt16.self))
    keySizeMaximum = Int(content.load(28, as: UInt16.self))
    suffixWidth = Int(content.load(30, as: UInt8.self))
    offsetWidth = Int(content.load(31, as: UInt8.self))
    sequenceWidth = Int(content.load(32, as: UInt8.self))
    kindWidth = Int(content.load(33, as: UInt8.self))
    reserved = content.load(34, as: UInt16.self)
  }

  @inline(__always)
  var bundleCount: Int { (rowCount &+ Block.bundleSize &- 1) >> Block.bundleShift }
  @inline(__always)
  var prefix: Int { Block.headerSize &+ valuesSize }
  @inline(__always)
  var heads: Int { prefix &+ prefixSize }
  @inline(__always)
  var bundles: Int { heads &+ bundleCount &* 8 }
  @inline(__always)
  var sequences: Int { bundles &+ bundleCount &* Block.bundleRecordSize }
  @inline(__always)
  var kinds: Int { sequences &+ rowCount &* sequenceWidth }
  @inline(__always)
  var suffixes: Int { kinds &+ rowCount &* kindWidth }
  @inline(__always)
  var offsets: Int { suffixes &+ (rowCount &+ bundleCount) &* suffixWidth }
  @inline(__always)
  var keys: Int { offsets &+ (rowCount &+ 1) &* offsetWidth }
  @inline(__always)
  var end: Int { keys &+ keysSize }
}
