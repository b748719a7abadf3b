/// What an entry does to its key.
///
/// On disk: never change a number. Numbers 5 to 15 are kept for what comes; a reader that meets one
/// that it does not know says so.
enum EntryKind: UInt8, Sendable {
  /// The key is gone.
  case delete = 0
  /// The key has this value.
  case put = 1
  /// The key is gone, and exactly one put lies below.
  case singleDelete = 2
  /// The keys from the entry's key up to its value (excluded) are gone.
  case rangeDelete = 3
  /// An operand that a merge operator folds into what lies below.
  case merge = 4

  /// Above every kind: a search for (key, sequence) begins here, because entries of one key and one
  /// sequence sort by kind descending.
  static let seekMaximum: UInt8 = 0xff
}
