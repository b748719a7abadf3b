/// Bytes of a file that can't be read, and what lies around them.
struct UnreadablePart: Sendable, Equatable {
  var start: UInt64
  var end: UInt64
  var message: String
  /// The last key that was read before, and the first one behind; nil where there is none.
  var keyBefore: [UInt8]?
  var keyBehind: [UInt8]?
  /// Whether entries may have been there. False for an index, a filter, a footer: what they say is known
  /// from elsewhere.
  var holdsEntries = true
}
