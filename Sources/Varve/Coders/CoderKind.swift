/// How a collection encodes its objects. Chosen when it is made, and kept.
///
/// The raw value stands in the catalog. On disk: never change.
public enum CoderKind: UInt8, Hashable, Sendable, CaseIterable {
  /// The bytes themselves: the objects are `Data` or `[UInt8]`, and nothing else can be stored.
  case raw = 0
  /// Varve's own: values by position, without the names of the fields, which are kept once for all rows. The smallest
  /// and the fastest, and the default.
  case binary = 1
  /// JSON, its keys sorted: for rows that other programs read. A `Date` is a number, the seconds since 2001; `Data` is
  /// base64; infinities and NaN are the strings `Infinity`, `-Infinity` and `NaN`.
  case json = 2
  /// A binary property list. Its objects must be arrays, dictionaries or bytes at their top, as those of
  /// `PropertyListEncoder`: a text, a number, a Boolean or a date alone throws `.encodingFailed`.
  case propertyList = 3
}

extension CoderKind {
  /// The coder of the metadata of a collection whose objects this one encodes: itself, but for `raw`, whose metadata
  /// our own coder writes.
  public var ofMetadata: CoderKind { self == .raw ? .binary : self }
}
