/// The header of a block's content and the offsets of its sections, in the format that `Block` describes.
///
/// The header may contain any bytes: 32-bit counts times at most eight bytes don't overflow, and `Block.validate`
/// compares the sum with the content's size.
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

  /// The offset at which the header begins.
  private let header: Int

  /// Reads the header at the end of `content`, which must have one.
  @inline(__always)
  init(_ content: ByteView) {
    header = content.count &- Block.headerSize
    rowCount = Int(content.load(header, as: UInt32.self))
    keysSize = Int(content.load(header &+ 4, as: UInt32.self))
    valuesSize = Int(content.load(header &+ 8, as: UInt32.self))
    valueSizeMinimum = Int(content.load(header &+ 12, as: UInt32.self))
    trailerBase = content.load(header &+ 16, as: UInt64.self)
    prefixSize = Int(content.load(header &+ 24, as: UInt16.self))
    keySizeMinimum = Int(content.load(header &+ 26, as: UInt16.self))
    keySizeMaximum = Int(content.load(header &+ 28, as: UInt16.self))
    suffixWidth = Int(content.load(header &+ 30, as: UInt8.self))
    offsetWidth = Int(content.load(header &+ 31, as: UInt8.self))
    sequenceWidth = Int(content.load(header &+ 32, as: UInt8.self))
    kindWidth = Int(content.load(header &+ 33, as: UInt8.self))
    reserved = content.load(header &+ 34, as: UInt16.self)
  }

  @inline(__always)
  var bundleCount: Int { (rowCount &+ Block.bundleSize &- 1) >> Block.bundleShift }
  @inline(__always)
  var prefix: Int { header &- prefixSize }
  @inline(__always)
  var heads: Int { prefix &- bundleCount &* 8 }
  @inline(__always)
  var bundles: Int { heads &- bundleCount &* Block.bundleRecordSize }
  @inline(__always)
  var suffixes: Int { bundles &- (rowCount &+ bundleCount) &* suffixWidth }
  @inline(__always)
  var keys: Int { suffixes &- keysSize }
  @inline(__always)
  var offsets: Int { keys &- (rowCount &+ 1) &* offsetWidth }
  @inline(__always)
  var kinds: Int { offsets &- rowCount &* kindWidth }
  @inline(__always)
  var sequences: Int { kinds &- rowCount &* sequenceWidth }
  /// The offset at which the values end according to the header. They begin at 0.
  @inline(__always)
  var valuesEnd: Int { sequences }
}
