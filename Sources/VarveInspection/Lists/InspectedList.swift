internal import Varve

/// Elements of a database that are read one after another, in one of two directions: rows by their keys or by an index.
///
/// ```swift
/// var rows = try inspector.rows(in: books, isReverse: true)
/// while let row = try rows.next() { print(row.key.text) }
/// ```
///
/// It belongs to the snapshot of its inspector, and may be used as long as the inspector is open.
public struct InspectedList<Element: Sendable>: Sendable {
  private var cursor: FamilyCursor?
  private let read: @Sendable (inout FamilyCursor) throws -> Element?
  private let position: @Sendable (Element) -> InspectedPosition
  /// The element that `page` has read to know whether there is one.
  private var ahead: Element?

  /// Creates a list of what `read` makes of the entries of a cursor, or an empty one.
  init(
    _ cursor: FamilyCursor?, position: @escaping @Sendable (Element) -> InspectedPosition,
    read: @escaping @Sendable (inout FamilyCursor) throws -> Element?
  ) {
    self.cursor = cursor
    self.position = position
    self.read = read
  }

  /// Returns the next element, or `nil` after the last.
  ///
  /// Throws errors of the storage: `.corruption` for a damaged block, and `.storage`.
  public mutating func next() throws -> Element? {
    if let element = ahead {
      ahead = nil
      return element
    }
    guard var cursor else { return nil }
    defer { self.cursor = cursor }
    return try read(&cursor)
  }

  /// Returns the next elements, at most `limit`, and the position from which the next page continues.
  ///
  /// Throws what `next` throws, and `.invalidArgument` for a limit below 1. Complexity: O(elements).
  public mutating func page(limit: Int) throws -> InspectedPage<Element> {
    guard limit > 0 else {
      throw DatabaseError(.invalidArgument, "the limit of a page is \(limit); it must be at least 1")
    }
    var elements: [Element] = []
    while elements.count < limit, let element = try next() { elements.append(element) }
    if elements.count == limit { ahead = try next() }
    return InspectedPage(elements: elements, next: ahead == nil ? nil : elements.last.map(position))
  }
}

/// A part of a list of an inspector.
public struct InspectedPage<Element: Sendable>: Sendable {
  /// The elements, in the direction in which the page was read.
  public let elements: [Element]
  /// The position from which the next page continues, or `nil` if this is the last page.
  public let next: InspectedPosition?
}

extension StorageRange {
  /// Returns the part of the range that follows a key, in the direction in which it is read.
  func following(_ key: [UInt8]?, isReverse: Bool) -> StorageRange {
    guard let key else { return self }
    var rest = self
    if isReverse {
      if rest.upper.map({ key.lexicographicallyPrecedes($0) }) ?? true { rest.upper = key }
    } else if rest.lower.lexicographicallyPrecedes(key + [0]) {
      rest.lower = key + [0]
    }
    return rest
  }
}
