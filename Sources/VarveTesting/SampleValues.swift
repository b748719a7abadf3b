public import Foundation

/// Generates values for the rows of a test from a seed.
///
/// The same seed yields the same values in the same order, on every machine and in every version of this library, so a
/// test that prints its seed can be repeated.
///
/// ```swift
/// var values = SampleValues(seed: 7)
/// let book = Book(id: values.uuid(), title: values.words(3), year: values.int(in: 1800...1899))
/// ```
///
/// The standard library's calls with `using: &values` work too, but the standard library does not guarantee that a
/// later version derives the same values from the bits. The generator is a value: copies continue independently.
public struct SampleValues: RandomNumberGenerator, Hashable, Sendable {
  /// The seed that the generator was created with.
  public let seed: UInt64
  private var state: UInt64

  /// Creates a generator whose values depend on the seed alone.
  public init(seed: UInt64) {
    self.seed = seed
    state = seed
  }

  /// Returns the next 64 bits (SplitMix64).
  public mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  // MARK: - Numbers

  /// Returns a number of a range, each about as likely as any other.
  public mutating func int(in range: ClosedRange<Int>) -> Int {
    let width = UInt64(bitPattern: Int64(range.upperBound &- range.lowerBound))
    let bits = next()
    let offset = width == .max ? bits : bits.multipliedFullWidth(by: width + 1).high
    return range.lowerBound &+ Int(truncatingIfNeeded: offset)
  }

  /// Returns true or false with equal probability.
  public mutating func bool() -> Bool { next() >> 63 == 1 }

  /// Returns a number from 0 up to but not including 1.
  public mutating func double() -> Double { Double(next() >> 11) * 0x1p-53 }

  // MARK: - Identifiers, bytes, dates

  /// Returns a UUID of version 4.
  public mutating func uuid() -> UUID {
    var bytes = bytes(16)
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    return UUID(
      uuid: (
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9], bytes[10],
        bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]
      ))
  }

  /// Returns an array of `count` random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    var bits: UInt64 = 0
    return (0..<count).map { index in
      if index.isMultiple(of: 8) { bits = next() }
      return UInt8(truncatingIfNeeded: bits >> (index % 8 * 8))
    }
  }

  /// Returns a whole second of the years 2000 to 2029, UTC.
  public mutating func date() -> Date {
    Date(timeIntervalSince1970: Double(int(in: 946_684_800...1_893_455_999)))
  }

  // MARK: - Text

  /// Returns a word of two to four syllables, in lower case. Words may repeat.
  public mutating func word() -> String {
    let syllables = int(in: 2...4)
    return (0..<syllables).map { _ in element(of: Self.consonants) + element(of: Self.vowels) }.joined()
  }

  /// Returns random words, separated by spaces.
  public mutating func words(_ count: Int) -> String { (0..<count).map { _ in word() }.joined(separator: " ") }

  /// Returns one of several elements. The collection must not be empty.
  public mutating func element<Element>(of elements: some RandomAccessCollection<Element>) -> Element {
    precondition(!elements.isEmpty, "there is nothing to take one of")
    return elements[elements.index(elements.startIndex, offsetBy: int(in: 0...(elements.count - 1)))]
  }

  private static let consonants = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"]
  private static let vowels = ["a", "e", "i", "o", "u"]
}
