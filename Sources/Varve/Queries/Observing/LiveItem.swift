public import Observation

/// One instance of a store for user interfaces, which is updated when the instance changes, once per turn of the main
/// actor.
///
/// The first value is read without blocking the main actor; `isLoaded` is false until then.
@MainActor
public final class LiveItem<Format: StoreFormat>: Observable {
  /// The identifier of the instance.
  public let id: Format.Identifier

  private let store: Store<Format>
  private let registrar = ObservationRegistrar()
  private let scope: LiveScope
  private var state = State()

  private struct State {
    var instance: Format.Instance?
    var error: (any Error)?
    var isLoaded = false
  }

  /// Observes an instance, at the same commit as the other members of a scope; or on its own if the scope is nil.
  public init(_ id: Format.Identifier, of store: Store<Format>, in scope: LiveScope? = nil) {
    self.id = id
    self.store = store
    self.scope = scope ?? LiveScope(store.database)
    self.scope.add(self)
  }

  /// The instance, or nil if there is none.
  public var instance: Format.Instance? {
    registrar.access(self, keyPath: \.instance)
    return state.instance
  }

  /// The error that prevents the instance from being read, or nil if there is none.
  public var error: (any Error)? {
    registrar.access(self, keyPath: \.error)
    return state.error
  }

  /// Whether the first value was read.
  public var isLoaded: Bool {
    registrar.access(self, keyPath: \.isLoaded)
    return state.isLoaded
  }

  private func set(_ result: Result<Format.Instance?, any Error>) {
    registrar.withMutation(of: self, keyPath: \.instance) {
      switch result {
      case .success(let instance): state = State(instance: instance, isLoaded: true)
      case .failure(let error): state.error = error
      }
    }
    registrar.withMutation(of: self, keyPath: \.error) {}
    registrar.withMutation(of: self, keyPath: \.isLoaded) {}
  }
}

@_spi(Extensions) extension LiveItem: LiveMember {
  /// Reads the value from a snapshot.
  @_spi(Extensions) public var reading: LiveReading {
    .value { [id, store, weak self] tx in
      let result = Result { try store.load(id, in: tx) }
      return LiveValue { [weak self] in self?.set(result) }
    }
  }

  /// Sets an error.
  @_spi(Extensions) public func fail(_ error: any Error) { set(.failure(error)) }
}
