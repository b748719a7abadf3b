public import Observation
@_spi(Extensions) public import Varve

/// A list for user interfaces: the sections and rows of a source, of which a window is loaded, and which are updated
/// with each commit, once per turn of the main actor.
///
/// ```swift
/// @State private var messages = LiveList(inbox, window: .last(50))
/// ```
///
/// Nothing is read on the main actor: it sets values that are ready. The list holds the snapshot that it shows, and
/// moves on with every commit, also one that does not concern it. Rows that are not loaded are `nil`; `grow`, `jump`
/// and `prefetch` load them.
@MainActor
public final class LiveList<Source: ListSource>: Observable {
  /// The value that all rows of a section have in common.
  public typealias Group = Source.Group
  /// The identity of a row.
  public typealias ID = Source.ID

  /// The source of the rows.
  public let source: Source
  /// The window that was asked for.
  public let window: ListWindow
  /// Called after each change of the list, with what has changed since the last call: for batch updates. A call with
  /// empty changes means that more rows are loaded, or that the state is another one.
  public var onChange: ((ListChanges<Group>) -> Void)?

  private let registrar = ObservationRegistrar()
  private let scope: LiveScope
  private let reader: LiveListReader<Source>
  private var picture = LiveListPicture<Source>()
  private var conditionNumber: UInt64 = 0
  /// Whether the database is closed, so that no condition is searched for any more.
  private var isEnded = false
  /// For rows that were loaded, a row that was near them.
  private var departed: [ID: ID] = [:]

  /// The number of rows for which it is known what was near them.
  private static var departedMaximum: Int { 1_000 }

  /// Shows a source, at the same commit as the other members of a scope; or on its own if the scope is nil.
  public init(
    _ source: Source, sections: ListSections<Group> = .all, window: ListWindow = .first(200),
    where keeps: (@Sendable (Source.Element) -> Bool)? = nil, in scope: LiveScope? = nil
  ) {
    self.source = source
    self.window = window
    reader = LiveListReader(source, sections, window)
    self.scope = scope ?? LiveScope(source.database)
    if let keeps { conditionNumber = reader.filter(where: keeps) }
    self.scope.add(self)
  }

  // The scope releases its snapshot if this was its last list.
  deinit { scope.wake() }

  // MARK: - What is shown

  /// The sections with their loaded rows.
  public var sections: [ListSection<Group, Source.Element>] {
    registrar.access(self, keyPath: \.sections)
    return picture.sections
  }

  /// The loaded rows of all sections, in order. Complexity: linear.
  public var rows: [ListRow<Source.Element>] { sections.flatMap(\.rows) }

  /// The number of rows of all sections, loaded or not.
  public var count: Int {
    registrar.access(self, keyPath: \.sections)
    return picture.count
  }

  /// The state.
  public var state: ListState {
    registrar.access(self, keyPath: \.state)
    return picture.state
  }

  /// Whether a condition was set whose matches are not shown yet. It is false once the database is closed.
  public var isFiltering: Bool {
    registrar.access(self, keyPath: \.state)
    return !isEnded && conditionNumber != picture.conditionNumber
  }

  /// Whether there are more than 10,000 matches, of which only the first ones are shown.
  public var isCut: Bool {
    registrar.access(self, keyPath: \.sections)
    return picture.isCut
  }

  /// The version of the commit that is shown, or `nil` before the first one.
  public var version: CommitVersion? {
    registrar.access(self, keyPath: \.version)
    return picture.version
  }

  /// Returns a loaded row, or `nil` if it is not loaded or does not exist.
  public func row(at index: ListIndex) -> ListRow<Source.Element>? {
    registrar.access(self, keyPath: \.sections)
    return picture.row(at: index)
  }

  /// Returns a loaded element, or `nil` if it is not loaded, does not exist or can't be read.
  public func element(at index: ListIndex) -> Source.Element? { row(at: index)?.element }

  /// Returns the place of a loaded row of the window, or `nil` if it is not loaded.
  public func indexPath(of id: ID) -> ListIndex? {
    registrar.access(self, keyPath: \.sections)
    return picture.places[id]
  }

  /// Returns the place of a row, or, if it has gone while it was loaded, of one that was next to it: for a selection
  /// that has to continue. Returns `nil` if neither is loaded.
  public func nearest(to id: ID) -> ListIndex? {
    registrar.access(self, keyPath: \.sections)
    var id = id
    for _ in 0...departed.count {
      if let place = picture.places[id] { return place }
      guard let next = departed[id] else { return nil }
      id = next
    }
    return nil
  }

  // MARK: - What is shown next

  /// Loads rows, so that `row(at:)` returns them until the list changes. Places without a row are left out.
  public func prefetch(_ indexes: [ListIndex]) {
    let missing = indexes.prefix(LiveListReader<Source>.prefetchedMaximum).filter { picture.row(at: $0) == nil }
    if !missing.isEmpty { request { $0.prefetched += missing } }
  }

  /// Loads more rows at an edge of the window: as many as the window had at first, if `count` is `nil`.
  public func grow(at edge: ListEdge, by count: Int? = nil) {
    request { [window] in $0.moves.append(.grow(edge, count ?? window.count)) }
  }

  /// Moves the window to a row, which will be in its middle. Nothing happens if the row is not in the list.
  public func jump(to id: ID) { request { $0.moves.append(.jump(id)) } }

  /// Moves the window to a place, or to the row that is nearest to it.
  public func jump(to index: ListIndex) { request { $0.moves.append(.jumpTo(index)) } }

  /// Shows only the elements that fulfil a condition, or all of them for `nil`. The former rows stay until the matches
  /// are found; another condition ends the search.
  public func filter(where keeps: (@Sendable (Source.Element) -> Bool)?) {
    registrar.withMutation(of: self, keyPath: \.state) { conditionNumber = reader.filter(where: keeps) }
    scope.wake()
  }

  /// Shows other sections.
  public func show(_ sections: ListSections<Group>) { request { $0.sections = sections } }

  private func request(_ change: (inout LiveListReader<Source>.Request) -> Void) {
    reader.request(change)
    scope.wake()
  }

  private func set(_ new: LiveListPicture<Source>) {
    reader.didApply()
    if new.isSame, picture.state.isLoaded, new.state.isLoaded {
      // Most commits concern other lists.
      return registrar.withMutation(of: self, keyPath: \.version) { picture = new }
    }
    let changes = new.changes
    registrar.withMutation(of: self, keyPath: \.sections) {
      registrar.withMutation(of: self, keyPath: \.state) {
        registrar.withMutation(of: self, keyPath: \.version) { picture = new }
      }
    }
    if departed.count + new.departed.count > Self.departedMaximum { departed = [:] }
    departed.merge(new.departed) { $1 }
    for id in new.places.keys where !departed.isEmpty { departed[id] = nil }
    if let changes { onChange?(changes) }
  }

  private func set(_ state: ListState) {
    registrar.withMutation(of: self, keyPath: \.state) { picture.state = state }
  }
}

@_spi(Extensions) extension LiveList: LiveMember {
  /// Reads what each commit has changed.
  public var reading: LiveReading {
    if case .notLoaded = picture.state { set(.loading) }
    return .steps { [reader, weak self] step in
      try reader.read(step).map { picture in LiveValue { [weak self] in self?.set(picture) } }
    }
  }

  /// Sets an error.
  public func fail(_ error: any Error) { set(.failed(error)) }

  /// Ends the search for matches. A list that shows nothing yet fails.
  public func end() {
    registrar.withMutation(of: self, keyPath: \.state) {
      isEnded = true
      picture.state = picture.state.ended
    }
  }
}
