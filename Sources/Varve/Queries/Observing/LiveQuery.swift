public import Observation

/// The instances of a query for user interfaces, which are updated when the result changes, once per turn of the main
/// actor.
///
/// ```swift
/// @State private var books = LiveQuery(store.query.sorted(by: \.title).limit(50))
/// var body: some View { List(books.instances) { Text($0.title) } }
/// ```
///
/// The first value is read without blocking the main actor; `isLoaded` is false until then. A query with many instances
/// needs a limit, because all of them are kept in memory.
///
/// A row that can't be decoded never ends the updates: it is left out, and `skippedRows` has it; or its stand-in is
/// shown; or `error` is set, and the instances stay until a commit makes them readable: as the format says
/// (``RowFormat/undecodable``).
@MainActor
public final class LiveQuery<Format: StoreFormat>: Observable {
  /// The query.
  public let query: StoreQuery<Format>

  private let registrar = ObservationRegistrar()
  private let scope: LiveScope
  private var state = State()

  private struct State {
    var instances: [Format.Instance] = []
    var skippedRows = SkippedRows()
    var error: (any Error)?
    var isLoaded = false
  }

  /// Observes the result of a query, at the same commit as the other members of a scope; or on its own if the scope is
  /// nil.
  public init(_ query: StoreQuery<Format>, in scope: LiveScope? = nil) {
    self.query = query
    self.scope = scope ?? LiveScope(query.store.database)
    self.scope.add(self)
  }

  /// The instances in the order of the query. After an error, these are the instances of the last successful read.
  public var instances: [Format.Instance] {
    registrar.access(self, keyPath: \.instances)
    return state.instances
  }

  /// The error that prevents the instances from being read, or nil if there is none.
  public var error: (any Error)? {
    registrar.access(self, keyPath: \.error)
    return state.error
  }

  /// The rows that `instances` lacks because they can't be decoded: see ``RowFormat/undecodable``.
  public var skippedRows: SkippedRows {
    registrar.access(self, keyPath: \.instances)
    return state.skippedRows
  }

  /// Whether the first value was read.
  public var isLoaded: Bool {
    registrar.access(self, keyPath: \.isLoaded)
    return state.isLoaded
  }

  private func set(_ result: Result<([Format.Instance], SkippedRows), any Error>) {
    registrar.withMutation(of: self, keyPath: \.instances) {
      switch result {
      case .success((let instances, let skipped)):
        state = State(instances: instances, skippedRows: skipped, isLoaded: true)
      case .failure(let error): state.error = error
      }
    }
    registrar.withMutation(of: self, keyPath: \.error) {}
    registrar.withMutation(of: self, keyPath: \.isLoaded) {}
  }
}

@_spi(Extensions) extension LiveQuery: LiveMember {
  /// Reads the value from a snapshot.
  @_spi(Extensions) public var reading: LiveReading {
    .value { [query, weak self] tx in
      let result = Result {
        try tx.collectingSkippedRows { try query.whileBuilt { try $0.fetch(in: tx) } }
      }
      return LiveValue { [weak self] in self?.set(result) }
    }
  }

  /// Sets an error.
  @_spi(Extensions) public func fail(_ error: any Error) { set(.failure(error)) }
}
