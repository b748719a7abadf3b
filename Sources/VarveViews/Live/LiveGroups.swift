public import Observation
@_spi(Extensions) public import Varve

/// The groups of a source with their numbers of elements, for user interfaces: a sidebar needs no rows.
///
/// They are updated when a commit changes a number, once per turn of the main actor, and read on other threads.
@MainActor
public final class LiveGroups<Source: ListSource>: Observable {
  /// A group.
  public struct Item: Identifiable, Hashable, Sendable {
    /// The group.
    public let id: Source.Group
    /// The number of its elements.
    public let count: Int
  }

  /// The source of the groups.
  public let source: Source

  private let registrar = ObservationRegistrar()
  private let scope: LiveScope
  private let mapping: ListMapping<Source>
  private var items: [Item] = []
  private var current = ListState.notLoaded

  /// Shows the groups of a source, at the same commit as the other members of a scope; or on its own if the scope is
  /// nil. `sections` says which groups, and in what order.
  public init(_ source: Source, sections: ListSections<Source.Group> = .all, in scope: LiveScope? = nil) {
    self.source = source
    mapping = ListMapping(source, sections: sections)
    self.scope = scope ?? LiveScope(source.database)
    self.scope.add(self)
  }

  /// The groups in order.
  public var groups: [Item] {
    registrar.access(self, keyPath: \.groups)
    return items
  }

  /// The state.
  public var state: ListState {
    registrar.access(self, keyPath: \.state)
    return current
  }

  /// Returns the number of elements of a group, zero for one that is not shown.
  public func count(of group: Source.Group) -> Int { groups.first { $0.id == group }?.count ?? 0 }

  private func set(_ result: Result<[Item]?, any Error>) {
    registrar.withMutation(of: self, keyPath: \.groups) {
      registrar.withMutation(of: self, keyPath: \.state) {
        switch result {
        case .success(let found?): (items, current) = (found, .loaded)
        case .success(nil): current = .building(source.progress)
        case .failure(let error): current = .failed(error)
        }
      }
    }
  }
}

@_spi(Extensions) extension LiveGroups: LiveMember {
  /// Reads the groups from a snapshot.
  public var reading: LiveReading {
    if case .notLoaded = current { registrar.withMutation(of: self, keyPath: \.state) { current = .loading } }
    return .value { [mapping, weak self] tx in
      let result = Result { () throws -> [Item]? in
        guard try mapping.source.generation(tx) != nil else { return nil }
        return try mapping.arranged(nil, tx).map { Item(id: $0.group, count: $0.count) }
      }
      return LiveValue { [weak self] in self?.set(result) }
    }
  }

  /// Sets an error.
  public func fail(_ error: any Error) { set(.failure(error)) }

  /// Groups that were not read yet fail.
  public func end() { registrar.withMutation(of: self, keyPath: \.state) { current = current.ended } }
}
