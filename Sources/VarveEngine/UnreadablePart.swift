/// Bytes of a file that can't be read, and the keys around them.
struct UnreadablePart: Sendable, Equatable {
  var start: UInt64
  var end: UInt64
  var message: String
  /// The last readable key before the part, and the first one after it; nil if there is none.
  var keyBefore: [UInt8]?
  var keyAfter: [UInt8]?
  /// Whether entries may have been there. False for an index, a filter, a footer: their content is known from
  /// elsewhere.
  var holdsEntries = true
}
