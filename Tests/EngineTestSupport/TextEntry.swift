/// An entry of the text cases: `key#sequence,kind=value`.
///
///     a#5,put=x    b#7,del    c#9,sdel    d#3,put        (an empty value)
///
/// A key or value is a run of characters other than white space; a key has no `#`.
public struct TextEntry: Hashable, Sendable, CustomStringConvertible {
  /// The kind of an entry, as it is spelled in the text cases.
  public enum Kind: String, Sendable, CaseIterable {
    /// Sets the value of the key.
    case put
    /// Deletes the key.
    case delete = "del"
    /// Deletes the key, below which there is one put.
    case singleDelete = "sdel"
    /// Deletes the keys from the key up to the value.
    case rangeDelete = "rdel"
    /// Adds a merge operand.
    case merge
  }

  /// The user key.
  public var key: [UInt8]
  /// The sequence number.
  public var sequence: UInt64
  /// The kind of the entry.
  public var kind: Kind
  /// The value or operand; empty for deletes.
  public var value: [UInt8]

  /// Creates an entry from its parts.
  public init(key: [UInt8], sequence: UInt64, kind: Kind, value: [UInt8] = []) {
    self.key = key
    self.sequence = sequence
    self.kind = kind
    self.value = value
  }

  /// Parses an entry. Returns `nil` if the text does not have the form that the type describes.
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

  /// The entry in the form in which it is parsed.
  public var description: String {
    let action = kind.rawValue + (value.isEmpty ? "" : "=" + String(decoding: value, as: UTF8.self))
    return "\(String(decoding: key, as: UTF8.self))#\(sequence),\(action)"
  }

  /// Returns whether two entries are in the order of internal keys: by ascending key, then newest first.
  public static func isInOrder(_ left: TextEntry, _ right: TextEntry) -> Bool {
    if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) }
    return left.sequence > right.sequence
  }
}
