/// How a collection encodes its objects. Chosen when it is made, and kept, unless its format names it among
/// ``RowFormat/formerCoders``.
///
/// The number of a case stands in the catalog. On disk: never change.
public enum CoderKind: Sendable {
  /// The bytes themselves: the objects are `Data` or `[UInt8]`, and nothing else can be stored. Number 0.
  case raw
  /// Varve's own: values by position, without the names of the fields, which are kept once for all rows. The smallest
  /// and the fastest, and the default. Number 1.
  case binary
  /// JSON, its keys sorted: for rows that other programs read. A `Date` is a number, the seconds since 2001; `Data` is
  /// base64; infinities and NaN are the strings `Infinity`, `-Infinity` and `NaN`. Number 2.
  case json
  /// A binary property list. Its objects must be arrays, dictionaries or bytes at their top, as those of
  /// `PropertyListEncoder`: a text, a number, a Boolean or a date alone throws `.encodingFailed`. Number 3.
  case propertyList
  /// A coder of the program's own. The catalog gives it a number from 16 on.
  case own(any ObjectCoder.Type)
}

extension CoderKind: Hashable {
  /// Two coders of a program's own are equal where they are the same type.
  public static func == (left: CoderKind, right: CoderKind) -> Bool {
    switch (left, right) {
    case (.raw, .raw), (.binary, .binary), (.json, .json), (.propertyList, .propertyList): true
    case (.own(let left), .own(let right)): ObjectIdentifier(left) == ObjectIdentifier(right)
    default: false
    }
  }

  /// By the number, or by the type.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(number)
    if case .own(let type) = self { hasher.combine(ObjectIdentifier(type)) }
  }
}

extension CoderKind: CaseIterable {
  /// Those that Varve has, in the order of their numbers.
  public static var allCases: [CoderKind] { [.raw, .binary, .json, .propertyList] }
}

extension CoderKind: CustomStringConvertible {
  /// Its name, as the tool prints it and the catalog has it: `raw`, `binary`, `json`, `propertyList`, or the stored name.
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
  /// The coder of the metadata of a collection whose objects this one encodes: itself, but for `raw`, whose metadata
  /// our own coder writes.
  public var ofMetadata: CoderKind { self == .raw ? .binary : self }

  /// The number on disk; nil of a coder of the program's own, which each catalog numbers itself.
  package var number: UInt8? {
    switch self {
    case .raw: 0
    case .binary: 1
    case .json: 2
    case .propertyList: 3
    case .own: nil
    }
  }

  /// The coder of Varve's with a number.
  package init?(number: UInt8) {
    guard let kind = Self.allCases.first(where: { $0.number == number }) else { return nil }
    self = kind
  }

  var isOwn: Bool { if case .own = self { true } else { false } }

  /// Whether only the catalog has its name.
  package var isUnnamed: Bool {
    if case .own(let type) = self { ObjectIdentifier(type) == ObjectIdentifier(UnnamedCoder.self) } else { false }
  }
}
