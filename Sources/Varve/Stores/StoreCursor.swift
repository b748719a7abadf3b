/// Scans instances in the order of their identifiers, inside of a transaction.
///
/// ```swift
/// var books = try store.load(..., in: tx)
/// while let book = try books.next() { print(book.title) }
/// ```
///
/// It shows the rows as they were when it was made, whatever the transaction writes meanwhile. It belongs to the thread
/// and the time of its transaction.
public struct StoreCursor<Element: Sendable> {
  private let transaction: ReadTransaction
  private var scan: any SeekableScan<Element>

  init(_ transaction: ReadTransaction, _ scan: any SeekableScan<Element>) {
    self.transaction = transaction
    self.scan = scan
  }

  /// The next instance; nil after the last. Throws `.transactionEnded`, `.decodingFailed`, `.unsupportedVersion`,
  /// `.corruption`, `.storage`.
  public mutating func next() throws -> Element? {
    try transaction.check()
    return try scan.next()?.element
  }

  /// Continues with the first instance at an identifier or after it, or where the cursor is descending, at it or before
  /// it. Instances that were returned can be returned again; the cursor's range bounds where it goes, and its limit counts
  /// all that it returns. Throws `.keyTypeDiffers`.
  public mutating func seek(to id: some KeyCodable) throws {
    try transaction.check()
    try scan.seek(to: id, keyLimit: transaction.database.limits.keySize)
  }

  /// How many instances are left. Complexity: O(n) of these; nothing is decoded.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scan.count()
  }

  /// Calls `body` with each instance that is left, in order, until it throws.
  public mutating func forEach(_ body: (Element) throws -> Void) throws {
    while let element = try next() { try body(element) }
  }

  /// What `transform` makes of each instance that is left; those of which it makes nil are left out.
  public mutating func compactMap<Result>(_ transform: (Element) throws -> Result?) throws -> [Result] {
    var results: [Result] = []
    while let element = try next() {
      if let result = try transform(element) { results.append(result) }
    }
    return results
  }

  /// The next instances, `count` of them at most.
  public mutating func collect(upTo count: Int) throws -> [Element] {
    var elements: [Element] = []
    while elements.count < count, let element = try next() { elements.append(element) }
    return elements
  }
}

@available(*, unavailable)
extension StoreCursor: Sendable {}

extension Array where Element: Sendable {
  /// All instances that are left of a cursor.
  public init(_ cursor: consuming StoreCursor<Element>) throws { self = try cursor.compactMap(\.self) }
}
