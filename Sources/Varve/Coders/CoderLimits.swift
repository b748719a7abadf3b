/// The bounds of the binary coder.
package enum CoderLimits {
  /// How deep arrays, records and maps may be nested, as in Foundation's JSON: both directions refuse more. A level
  /// costs about 1 KiB of stack in the types that encode and decode themselves.
  package static let depth = 512
  /// The most fields of a shape. A record with more is written as a map.
  static let fieldCountMaximum = 1_024
  /// The longest name of a field, in bytes of UTF-8. A record with a longer one is written as a map.
  static let nameSizeMaximum = 1_024
  /// The largest value: offsets in it fit 32 bits.
  static let valueSizeMaximum = Int(Int32.max)
  /// How many shapes a program learns of the records of one type that begin with one field. A type beyond that sets
  /// its fields in any order, and is written as a map: 16 orders of one type are an accident, not a type.
  static let shapesPerFirstField = 16
  /// How often one value is encoded again by a more careful way before that is an error. Each time is for another
  /// reason, one for each mode and each type that gives up shapes.
  static let attemptsMaximum = 256
  /// The largest buffer that an encoder keeps for the next value.
  static let keptBufferSize = 1 << 20
  /// How many frames, and offsets of fields, of one that is kept.
  static let keptFrames = 1 << 12
  static let keptOffsets = 1 << 14
  /// How many encoders or decoders wait for their next use.
  static let pooledCount = 8
  /// How many containers of one key type are kept for the next use: one for each level of a nested type.
  static let pooledContainers = 8
}
