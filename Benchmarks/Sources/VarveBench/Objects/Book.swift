import Foundation

/// The object of the object workloads: eight fields of the types that records have, 201 bytes.
struct Book: Codable, Equatable, Identifiable, Sendable {
  /// The random id, which is the key.
  var id: UUID
  var title: String
  var author: String
  var summary: String
  var year: Int
  var price: Double
  var updated: Date
  var isRead: Bool

  static let titleSize = 28
  /// Short enough for a string without allocated memory, as many strings are.
  static let authorSize = 12
  static let summarySize = 120
  static let textSize = titleSize + authorSize + summarySize

  /// The size of the fields in memory in bytes, which counts as the user data of a row, however an engine stores it.
  static let byteCount = 16 + textSize + 8 + 8 + 8 + 1

  /// A value computed from every field, so that none is left undecoded.
  @inline(__always)
  var touched: Int {
    let texts = title.utf8.count &+ author.utf8.count &+ summary.utf8.count
    let numbers = year &+ Int(truncatingIfNeeded: (price + updated.timeIntervalSinceReferenceDate).bitPattern)
    return texts &+ numbers &+ (isRead ? 1 : 0) &+ Int(id.uuid.0)
  }
}

/// Generates the book with a number: the same book for the same number and seed, whatever the engine and the order.
struct BookSource {
  private let texts: ValueSource
  private let seed: UInt64

  init(_ settings: RunSettings) { self.init(compressionRatio: settings.compressionRatio, seed: settings.seed) }

  init(compressionRatio: Double, seed: UInt64) {
    texts = ValueSource(valueSize: Book.textSize, compressionRatio: compressionRatio, seed: seed)
    self.seed = seed
  }

  /// Returns a random UUID (version 4).
  @inline(__always)
  func id(_ number: UInt64) -> UUID {
    var random = generator(number)
    return Self.id(&random)
  }

  func book(_ number: UInt64) -> Book {
    var random = generator(number)
    let id = Self.id(&random)
    let bits = random.next()
    let text = texts.value(bits)
    func cut(_ start: Int, _ count: Int) -> String {
      String(decoding: UnsafeRawBufferPointer(rebasing: text[start..<(start + count)]), as: UTF8.self)
    }
    return Book(
      id: id, title: cut(0, Book.titleSize), author: cut(Book.titleSize, Book.authorSize),
      summary: cut(Book.titleSize + Book.authorSize, Book.summarySize), year: 1900 + Int(bits >> 32) % 130,
      price: Double(bits >> 40) / 100, updated: Date(timeIntervalSinceReferenceDate: 8e8 * random.nextUnit()),
      isRead: bits & 1 == 1)
  }

  @inline(__always)
  private func generator(_ number: UInt64) -> SplitMix64 {
    // Streams of neighboring numbers would overlap if they began one step apart.
    SplitMix64(seed: (number &+ 1) &* 0xd6e8_feb8_6659_fd93 ^ seed &* 0x9e37_79b9_7f4a_7c15)
  }

  @inline(__always)
  private static func id(_ random: inout SplitMix64) -> UUID {
    let high = random.next() & ~0xf000 | 0x4000
    let low = random.next() & ~(0b11 << 62) | 0b10 << 62
    return unsafeBitCast((high.bigEndian, low.bigEndian), to: UUID.self)
  }
}
