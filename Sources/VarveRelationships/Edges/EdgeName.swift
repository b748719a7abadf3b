internal import Varve

/// The name of an edge, which describes its meaning, such as "avatar" or "album". Edges with the same name between the
/// same two ends are one edge.
///
/// Texts that look the same are the same name, because names are stored in Unicode's normal form C.
public struct EdgeName: Hashable, Sendable, Comparable, CustomStringConvertible, ExpressibleByStringLiteral {
  /// The name, in normal form C.
  public let text: String

  /// Creates a name. A name that is not allowed throws when an edge is created with it: an empty name, one of more than
  /// 255 bytes of UTF-8, and one with U+0000.
  public init(_ text: String) {
    // ASCII text is always in the form.
    self.text = text.utf8.allSatisfy { $0 < 0x80 } ? text : ComposedText.of(text)
  }

  /// Creates a name from a literal.
  public init(stringLiteral text: String) { self.init(text) }

  /// The maximum number of bytes of UTF-8.
  static let sizeMaximum = 255

  /// Compares names by their bytes of UTF-8, which is the order of edges.
  public static func < (left: EdgeName, right: EdgeName) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  /// The name.
  public var description: String { text }

  /// Throws `.invalidArgument` for a name that is not allowed.
  func check() throws {
    let size = text.utf8.count
    guard size > 0, size <= Self.sizeMaximum, !text.utf8.contains(0) else {
      let found = size == 0 ? "is empty" : size > Self.sizeMaximum ? "has \(size) bytes" : "has U+0000 in it"
      throw DatabaseError(
        .invalidArgument, "the name of an edge \(found); 1 to \(Self.sizeMaximum) bytes without U+0000 are possible")
    }
  }
}
