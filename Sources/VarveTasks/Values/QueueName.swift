internal import UnicodeNormalForm

/// The name of a queue: any text of 1 to 255 bytes of UTF-8. A queue needs no declaration: it exists with its first
/// task.
///
/// A name is never forgotten, and takes about 250 bytes of memory. For tasks that concern single objects, use limit
/// keys (`TaskOptions.limitKey`) instead of a name for each object.
///
/// Canonically equivalent names are equal, because names are stored in Unicode's normal form C.
public struct QueueName: Hashable, Comparable, Codable, Sendable, ExpressibleByStringInterpolation,
  CustomStringConvertible
{
  /// The text.
  public let text: String

  /// The maximum size of a name in bytes of UTF-8.
  public static let sizeMaximum = 255

  /// Creates a name. Its size is checked when a task is enqueued.
  public init(_ text: String) { self.text = ComposedName.of(text) }

  /// Creates a name from a string literal, which may have interpolations, as in `"account-\(number)"`.
  public init(stringLiteral text: String) { self.init(text) }

  /// Decodes a name from a single text value.
  public init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }

  /// Encodes the name as a single text value.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(text)
  }

  /// Compares names by the Unicode scalars of their texts.
  public static func < (left: QueueName, right: QueueName) -> Bool { left.text < right.text }

  /// The text.
  public var description: String { text }
}

/// Text in Unicode's normal form C.
enum ComposedName {
  /// Returns a text in that form.
  ///
  /// Complexity: O(bytes), without an allocation for a text that has the form already.
  static func of(_ text: String) -> String {
    var text = text
    return text.withUTF8 { buffer in
      // Safety: the buffer lives as long as the closure, and every byte of it is initialized.
      let utf8 = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer))
      if NormalForm.isComposed(utf8) { return nil }
      return String(decoding: NormalForm.composed(utf8), as: UTF8.self)
    } ?? text
  }
}
