/// A loaded row of a list.
public struct ListRow<Element: Identifiable & Sendable>: Identifiable, Sendable where Element.ID: Sendable {
  /// The identity of the element.
  public let id: Element.ID
  /// The element, or `nil` if it can't be read: the row is then a placeholder.
  public let element: Element?
  /// The error that prevents the element from being read, or `nil` if there is none.
  public let error: (any Error)?

  init(_ id: Element.ID, _ result: Result<Element, any Error>) {
    self.id = id
    switch result {
    case .success(let element): (self.element, error) = (element, nil)
    case .failure(let failure): (element, error) = (nil, failure)
    }
  }
}

/// A section of a list, with its loaded rows.
public struct ListSection<Group: Hashable & Sendable, Element: Identifiable & Sendable>: Identifiable, Sendable
where Element.ID: Sendable {
  /// The group, or `nil` for the section of all groups.
  public let group: Group?
  /// The number of rows, loaded or not.
  public let count: Int
  /// The offset of the first loaded row.
  public let offset: Int
  /// The loaded rows, which follow each other.
  public let rows: [ListRow<Element>]

  /// The identity of the section.
  public var id: Group? { group }
  /// The elements of the loaded rows that can be read.
  public var elements: [Element] { rows.compactMap(\.element) }
}
