public import Observation

/// The instances of a query, for user interfaces: it changes as the result does, once a turn of the main actor.
///
/// ```swift
/// @State private var books = LiveQuery(store.query.sorted(by: \.title).limit(50))
/// var body: some View { List(books.instances) { Text($0.title) } }
/// ```
///
/// The first value is read without blocking the main actor: until then `isLoaded` is false. A query of many instances needs a
/// limit: all are in memory.
@MainActor
public final class LiveQuery<Format: StoreFormat>: Observable {
  /// The query.
  public let query: StoreQuery<Format>

  private let registrar = ObservationRegistrar()
  private let scope: LiveScope
  private var state = State()

  private struct State {
    var instances: [Format.Instance] = []
    var error: (any Error)?
    var isLoaded = false
  }

  /// The result of a query, kept at one commit with the other members of a scope; nil: by itself.
  public init(_ query: StoreQuery<Format>, in scope: LiveScope? = nil) {
    self.query = query
    self.scope = scope ?? LiveScope(query.store.database)
    self.scope.add(self)
  }

  /// The instances, in the order of the query; after an error those before it.
  public var instances: [Format.Instance] {
    registrar.access(self, keyPath: \.instances)
    return state.instances
  }

  /// Why the instances can't be read; nil where they can.
  public var error: (any Error)? {
    registrar.access(self, keyPath: \.error)
    return state.error
  }

  /// Whether the first value is there.
  public var isLoaded: Bool {
    registrar.access(self, keyPath: \.isLoaded)
    return state.isLoaded
  }

  private func set(_ result: Result<[Format.Instance], any Error>) {
    registrar.withMutation(of: self, keyPath: \.instances) {
      switch result {
      case .success(let instances): state = State(instances: instances, isLoaded: true)
      case .failure(let error): state.error = error
      }
    }
    registrar.withMutation(of: self, keyPath: \.error) {}
    registrar.withMutation(of: self, keyPath: \.isLoaded) {}
  }
}

extension LiveQuery: LiveMember {
  var read: @Sendable (ReadTransaction) -> LiveValue {
    { [query, weak self] tx in
      let result = Result { try query.whileBuilt { try $0.fetch(in: tx) } }
      return LiveValue { [weak self] in self?.set(result) }
    }
  }

  func fail(_ error: any Error) { set(.failure(error)) }
}
