internal import Varve

/// A position in a list of an inspector: that of one of its elements, from which another page continues.
///
/// ```swift
/// let page = try inspector.feed(before: position, limit: 50)
/// let older = try page.next.map { try inspector.feed(before: $0, limit: 50) }
/// ```
///
/// It stays valid while elements come and go, also if its own element goes, and for other inspectors of the same
/// database. It can be stored, and sent to another program: as its ``description``, or as the same text in JSON. What
/// the text says may change in later versions, which read the texts of earlier ones.
public struct InspectedPosition: Hashable, Sendable, Codable, CustomStringConvertible {
  /// The list that the position is one of.
  let list: InspectedListID
  /// What places the element in its list: the key of a row, the key of an entry, or the version of a commit.
  let key: [UInt8]

  init(_ list: InspectedListID, _ key: [UInt8]) {
    self.list = list
    self.key = key
  }

  /// Creates the position whose ``description`` is a text. Throws `.invalidArgument` if it is that of none.
  public init(_ text: String) throws {
    guard let kind = text.first.flatMap(InspectedListID.Kind.init), let bytes = Self.bytes(text.utf8.dropFirst()),
      bytes.count > 4 * kind.numberCount
    else {
      throw DatabaseError(
        .invalidArgument,
        "\"\(text)\" is not a position; expected the text of one that a list of an inspector has returned")
    }
    list = InspectedListID(
      kind: kind,
      numbers: (0..<kind.numberCount).compactMap { BigEndian.number(bytes, at: 4 * $0, as: UInt32.self) })
    key = Array(bytes[(4 * kind.numberCount)...])
  }

  /// A text of letters and digits that stands for the position.
  public var description: String {
    let digits = Array("0123456789abcdef")
    let bytes = list.numbers.flatMap { BigEndian.bytes($0) } + key
    return String(list.kind.rawValue) + String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
  }

  private static func bytes(_ text: Substring.UTF8View) -> [UInt8]? {
    let digits = text.map { Character(Unicode.Scalar($0)).hexDigitValue }
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let high = digits[index], let low = digits[index + 1] else { return nil }
      bytes.append(UInt8(high << 4 | low))
    }
    return bytes
  }

  /// Reads a position from its text. Throws `.invalidArgument` if the text is that of none.
  public init(from decoder: any Decoder) throws { try self.init(decoder.singleValueContainer().decode(String.self)) }

  /// Writes the text of the position.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

/// The identity of a list, so that a position of another one is refused.
struct InspectedListID: Hashable, Sendable {
  /// A kind of list. The letter begins the text of a position.
  enum Kind: Character, Sendable {
    case feed = "f"
    case rows = "r"
    case index = "i"

    /// The number of `numbers` that a list of this kind has.
    var numberCount: Int {
      switch self {
      case .feed: 0
      case .rows: 1
      case .index: 3
      }
    }

    fileprivate var text: String {
      switch self {
      case .feed: "the feed"
      case .rows: "rows by their keys"
      case .index: "rows by an index"
      }
    }
  }

  let kind: Kind
  let numbers: [UInt32]

  static let feed = InspectedListID(kind: .feed, numbers: [])

  static func rows(of collection: InspectedCollection) -> InspectedListID {
    InspectedListID(kind: .rows, numbers: [collection.id])
  }

  /// The numbers are those of the names of the collection and the index, and of the type of the values. The number of
  /// the extension would be another one after any of the collection's indexes is defined again.
  static func rows(of index: InspectedIndex) -> InspectedListID {
    InspectedListID(
      kind: .index,
      numbers: [IndexFormat.number(of: index.collection), index.number, IndexFormat.number(of: index.keyType)])
  }

  /// Returns the key of a position in this list, which errors call `name`.
  ///
  /// Throws `.invalidArgument` for a position of another list, and `.cursorExpired` for one in an index whose values
  /// had another type.
  func key(of position: InspectedPosition, _ name: String) throws -> [UInt8] {
    guard position.list.kind == kind, position.list.numbers.dropLast() == numbers.dropLast() else {
      let other = position.list.kind == kind ? "another list of \(kind.text)" : "a list of \(position.list.kind.text)"
      throw DatabaseError(.invalidArgument, "the position is one of \(other), and this list is \(name)")
    }
    guard position.list.numbers == numbers else {
      if kind == .rows {
        throw DatabaseError(
          .invalidArgument, "the position is one of another list of \(kind.text), and this list is \(name)")
      }
      throw DatabaseError(
        .cursorExpired, "the position is one of \(name) when its values had another type; begin without a position")
    }
    return position.key
  }
}
