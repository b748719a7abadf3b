/// The operation that an entry applies to its key.
///
/// The numbers are stored on disk: never change one. Numbers 5 to 15 are reserved. A reader that finds an unknown
/// number reports it.
enum EntryKind: UInt8, Sendable {
  /// Deletes the key.
  case delete = 0
  /// Sets the value of the key.
  case put = 1
  /// Deletes the key, of which exactly one older put exists.
  case singleDelete = 2
  /// Deletes the keys from the entry's key (included) up to the entry's value (excluded).
  case rangeDelete = 3
  /// An operand that a merge operator folds into the older entries of the key.
  case merge = 4

  /// A number above every kind. A search for (key, sequence) begins at it, because entries of one key and one
  /// sequence sort by kind descending.
  static let seekMaximum: UInt8 = 0xff
}
