public import Varve

/// The place of a row in a view: a group, and a position in the group.
///
/// ```swift
/// ViewPlace(book.author, Descending(book.year), book.title)
/// ```
///
/// The position is a list of keys, which are compared one after the other. Rows whose positions are equal are in the
/// order of their numbers (`Row.id`), which is that of their insertion. A position without keys orders the group in
/// this way alone. The types of the keys are not part of the view's type, so another definition may order the rows by
/// others; but all rows of a group should have keys of the same types, because keys of different types are in the order
/// of their encodings.
///
/// A key that can't be encoded, for example NaN, throws nothing here: the row is in no group, and
/// ``ViewTransaction/unplacedRows(limit:)`` has the reason.
public struct ViewPlace<Group: KeyCodable>: Sendable {
  // No field is of the type `Group`, so that code that is generic over it needs no metadata of this type.

  /// A free byte, and the encodings of the group and the position, with room for the number of the row.
  var bytes: [UInt8]
  /// The size of the encoded group.
  let groupSize: Int
  /// The error of a key that can't be encoded.
  let failure: (any Error)?

  /// Creates a place from the group and the keys of the position.
  public init<each Position: KeyCodable>(_ group: Group, _ position: repeat each Position) {
    var encoder = KeyEncoder(capacity: 64)
    encoder.appendNil()
    var size = 0
    var failure: (any Error)?
    do {
      try group.encodeKey(into: &encoder)
      size = encoder.bytes.count - 1
      for key in repeat each position { try key.encodeKey(into: &encoder) }
    } catch {
      failure = error
    }
    bytes = encoder.bytes
    groupSize = size
    self.failure = failure
  }
}
