internal import CVarve

/// The limits of the binary coder.
package enum CoderLimits {
  /// The maximum nesting depth of arrays, records and maps, as in Foundation's JSON, for encoding and decoding. Types
  /// that encode and decode themselves recurse at each level: see `stackRest`.
  package static let depth = 512
  /// The bytes of stack that must remain at the start of a level that is a multiple of eight: enough for seven more
  /// levels of types that encode and decode themselves, and for the calls of the innermost one.
  static let stackRest = 64 << 10

  /// Returns whether another level may begin. The stack is checked if `depth` is a multiple of eight.
  @inline(__always)
  static func hasRoom(atDepth depth: Int) -> Bool {
    depth <= Self.depth && (depth & 7 != 0 || cvarve_stack_has(stackRest))
  }

  /// Returns the reason why another level may not begin.
  static func reason(atDepth depth: Int) -> String {
    depth > Self.depth
      ? "values are nested deeper than \(Self.depth) levels"
      : "values are nested deeper than the stack of the thread allows: less than \(stackRest) bytes of it are left at "
        + "level \(depth); the threads of asynchronous calls have 8 MiB"
  }
  /// The maximum number of fields of a shape. A record with more is written as a map.
  static let fieldCountMaximum = 1_024
  /// The maximum length of a field name in bytes of UTF-8. A record with a longer one is written as a map.
  static let nameSizeMaximum = 1_024
  /// The maximum size of a value, so that offsets in it fit 32 bits.
  static let valueSizeMaximum = Int(Int32.max)
  /// The maximum number of shapes that a program learns for the records of one type that begin with the same field. A
  /// type with more sets its fields in arbitrary order, and is written as a map: 16 orders of one type are not a fixed
  /// structure.
  static let shapesPerFirstField = 16
  /// The maximum number of times that one value is encoded again by a more careful method, after which encoding fails.
  /// Each repetition has another reason, one for each mode and each type that gives up shapes.
  static let attemptsMaximum = 256
  /// The maximum size of a buffer that an encoder keeps for the next value.
  static let keptBufferSize = 1 << 20
  /// The maximum numbers of frames and field offsets that are kept for the next value.
  static let keptFrames = 1 << 12
  static let keptOffsets = 1 << 14
  /// The maximum number of idle encoders or decoders that are kept.
  static let pooledCount = 8
  /// The maximum number of idle containers that are kept for one key type: one for each level of a nested type.
  static let pooledContainers = 8
}
