internal import CVarve

/// The bounds of the binary coder.
package enum CoderLimits {
  /// How deep arrays, records and maps may be nested, as in Foundation's JSON: both directions refuse more. Types that
  /// encode and decode themselves call themselves at each level: see `stackRest`.
  package static let depth = 512
  /// The bytes of stack that must be left where a level begins that is a multiple of eight: for seven more
  /// levels of types that encode and decode themselves, and for what the innermost of them calls.
  static let stackRest = 64 << 10

  /// Whether another level may begin. The stack is looked at where `depth` is a multiple of eight.
  @inline(__always)
  static func hasRoom(atDepth depth: Int) -> Bool {
    depth <= Self.depth && (depth & 7 != 0 || cvarve_stack_has(stackRest))
  }

  /// Why another level may not begin.
  static func reason(atDepth depth: Int) -> String {
    depth > Self.depth
      ? "values are nested deeper than \(Self.depth) levels"
      : "values are nested deeper than the stack of the thread allows: less than \(stackRest) bytes of it are left at "
        + "level \(depth); the threads of asynchronous calls have 8 MiB"
  }
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
