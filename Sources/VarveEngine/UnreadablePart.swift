/// Bytes of a file that can't be read, and the keys around them.
struct UnreadablePart: Sendable, Equatable {
  var start: UInt64
  var end: UInt64
  var message: String
  /// The last readable key before the part, and the first one after it, or `nil` if there is none.
  var keyBefore: [UInt8]?
  var keyAfter: [UInt8]?
  /// A Boolean value that indicates whether entries may have been there.
  ///
  /// It is false for an index, a filter or a footer, whose content is known from elsewhere.
  var holdsEntries = true
}
