/// Scans instances in the order of their identifiers, inside a transaction.
///
/// ```swift
/// var books = try store.load(..., in: tx)
/// while let book = try books.next() { print(book.title) }
/// let first = try store.load(.value("Emma"), from: \.title, in: tx).first()
/// for book in try Array(store.load(..., in: tx)) { print(book.title) }
/// ```
///
/// It is not a `Sequence`, because each step may throw.
///
/// The cursor shows the rows as they were when it was created, whatever the transaction writes meanwhile. It may be
/// used only on the thread, and until the end, of its transaction.
public struct StoreCursor<Element: Sendable> {
  private let transaction: ReadTransaction
  private var scan: any SeekableScan<Element>

  init(_ transaction: ReadTransaction, _ scan: any SeekableScan<Element>) {
    self.transaction = transaction
    self.scan = scan
  }

  /// Returns the next instance, or nil after the last. Throws `.transactionEnded`, `.decodingFailed`,
  /// `.unsupportedVersion`, `.corruption`, `.storage`.
  public mutating func next() throws -> Element? {
    try transaction.check()
    return try scan.next()?.element
  }

  /// Moves to the first instance at or after an identifier, or for a descending cursor, at or before it.
  ///
  /// Instances that were returned can be returned again. The cursor stays within its range, and its limit counts all
  /// instances that it returns. Throws `.keyTypeDiffers`.
  public mutating func seek(to id: some KeyCodable) throws {
    try transaction.check()
    try scan.seek(to: id, keyLimit: transaction.database.limits.keySize)
  }

  /// Returns the number of instances that remain. Complexity: O(n) in these; instances are only decoded for an index
  /// with prefixes of values.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scan.count()
  }

  /// Returns the next instance, or nil if there is none. The cursor itself stays where it is.
  public consuming func first() throws -> Element? { try next() }

  /// Calls `body` with each remaining instance in order, until it throws.
  public mutating func forEach(_ body: (Element) throws -> Void) throws {
    while let element = try next() { try body(element) }
  }

  /// Returns the results of `transform` for the remaining instances, without those that are nil.
  public mutating func compactMap<Result>(_ transform: (Element) throws -> Result?) throws -> [Result] {
    var results: [Result] = []
    while let element = try next() {
      if let result = try transform(element) { results.append(result) }
    }
    return results
  }

  /// Returns the next instances, at most `count` of them.
  public mutating func collect(upTo count: Int) throws -> [Element] {
    var elements: [Element] = []
    while elements.count < count, let element = try next() { elements.append(element) }
    return elements
  }
}

@available(*, unavailable)
extension StoreCursor: Sendable {}

extension Array where Element: Sendable {
  /// Creates an array of all remaining instances of a cursor.
  public init(_ cursor: consuming StoreCursor<Element>) throws { self = try cursor.compactMap(\.self) }
}
