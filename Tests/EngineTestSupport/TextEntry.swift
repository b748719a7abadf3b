/// One entry of the text cases: `key#sequence,kind=value`.
///
///     a#5,put=x    b#7,del    c#9,sdel    d#3,put        (an empty value)
///
/// A key or value is any run of characters other than white space; a key holds no `#`.
public struct TextEntry: Hashable, Sendable, CustomStringConvertible {
  /// What an entry does, as the text cases spell it.
  public enum Kind: String, Sendable, CaseIterable {
    /// The key has the value.
    case put
    /// The key is gone.
    case delete = "del"
    /// The key is gone, and one put lies below.
    case singleDelete = "sdel"
    /// Keys up to the value are gone.
    case rangeDelete = "rdel"
    /// An operand.
    case merge
  }

  /// The user key.
  public var key: [UInt8]
  /// The sequence number.
  public var sequence: UInt64
  /// What the entry does.
  public var kind: Kind
  /// The value or operand; empty for deletes.
  public var value: [UInt8]

  /// Makes an entry of its parts.
  public init(key: [UInt8], sequence: UInt64, kind: Kind, value: [UInt8] = []) {
    self.key = key
    self.sequence = sequence
    self.kind = kind
    self.value = value
  }

  /// Parses one entry; nil if it is not in the form described for this type.
  public init?(_ text: some StringProtocol) {
    guard let hash = text.firstIndex(of: "#") else { return nil }
    let rest = text[text.index(after: hash)...]
    guard let comma = rest.firstIndex(of: ","), let sequence = UInt64(rest[..<comma]) else { return nil }
    let action = rest[rest.index(after: comma)...]
    let name = action.prefix { $0 != "=" }
    guard let kind = Kind(rawValue: String(name)) else { return nil }
    self.init(
      key: Array(text[..<hash].utf8), sequence: sequence, kind: kind,
      value: Array(action.dropFirst(name.count + 1).utf8))
  }

  /// As it is read.
  public var description: String {
    let action = kind.rawValue + (value.isEmpty ? "" : "=" + String(decoding: value, as: UTF8.self))
    return "\(String(decoding: key, as: UTF8.self))#\(sequence),\(action)"
  }

  /// The order of internal keys: key ascending, then newest first.
  public static func isInOrder(_ left: TextEntry, _ right: TextEntry) -> Bool {
    if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) }
    return left.sequence > right.sequence
  }
}
