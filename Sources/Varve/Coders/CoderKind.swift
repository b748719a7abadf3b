/// The way in which a collection encodes its objects. It is chosen when the collection is created, and kept, unless its
/// format lists it in ``RowFormat/formerCoders``.
///
/// The number of a case is stored in the catalog on disk and must never change.
public enum CoderKind: Sendable {
  /// The bytes themselves: only `Data` and `[UInt8]` objects can be stored. Number 0.
  case raw
  /// Varve's own coder: values by position, without the names of the fields, which are stored once for all rows. The
  /// smallest and fastest one, and the default. Number 1.
  case binary
  /// JSON with sorted keys, for rows that other programs read. A `Date` is a number, the seconds since 2001; `Data` is
  /// base64; infinities and NaN are the strings `Infinity`, `-Infinity` and `NaN`. Number 2.
  case json
  /// A binary property list. As with `PropertyListEncoder`, the top-level value must be an array, a dictionary or
  /// bytes: a single text, number, Boolean or date throws `.encodingFailed`. Number 3.
  case propertyList
  /// A coder of the program. The catalog assigns it a number from 16 on.
  case own(any ObjectCoder.Type)
}

extension CoderKind: Hashable {
  /// Returns whether both are the same coder. Two coders of the program are equal if they are the same type.
  public static func == (left: CoderKind, right: CoderKind) -> Bool {
    switch (left, right) {
    case (.raw, .raw), (.binary, .binary), (.json, .json), (.propertyList, .propertyList): true
    case (.own(let left), .own(let right)): ObjectIdentifier(left) == ObjectIdentifier(right)
    default: false
    }
  }

  /// Hashes the number, or the type of a coder of the program.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(number)
    if case .own(let type) = self { hasher.combine(ObjectIdentifier(type)) }
  }
}

extension CoderKind: CaseIterable {
  /// Varve's own coders, in the order of their numbers.
  public static var allCases: [CoderKind] { [.raw, .binary, .json, .propertyList] }
}

extension CoderKind: CustomStringConvertible {
  /// The name of the coder, as the tool prints it and the catalog stores it: `raw`, `binary`, `json`, `propertyList`,
  /// or the stored name.
  public var description: String {
    switch self {
    case .raw: "raw"
    case .binary: "binary"
    case .json: "json"
    case .propertyList: "propertyList"
    case .own(let type): type.storedName
    }
  }
}

extension CoderKind {
  /// The coder of the metadata of a collection with this coder: the same coder, except that metadata of `raw` is
  /// encoded by `binary`.
  public var ofMetadata: CoderKind { self == .raw ? .binary : self }

  /// The number on disk, or nil for a coder of the program, which each catalog numbers itself.
  package var number: UInt8? {
    switch self {
    case .raw: 0
    case .binary: 1
    case .json: 2
    case .propertyList: 3
    case .own: nil
    }
  }

  /// Creates one of Varve's coders by its number, or returns nil if there is none.
  package init?(number: UInt8) {
    guard let kind = Self.allCases.first(where: { $0.number == number }) else { return nil }
    self = kind
  }

  var isOwn: Bool { if case .own = self { true } else { false } }

  /// Whether the program has not named the coder, so that only the catalog has its name.
  package var isUnnamed: Bool {
    if case .own(let type) = self { ObjectIdentifier(type) == ObjectIdentifier(UnnamedCoder.self) } else { false }
  }
}
