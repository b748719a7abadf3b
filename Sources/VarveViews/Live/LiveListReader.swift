internal import FutexLocks
internal import Synchronization
@_spi(Extensions) internal import Varve

/// Reads what a list shows, on threads of the database.
///
/// The main actor asks for something by `request`, which never waits for a read. One step at a time takes what was
/// asked for, moves the mapping, and makes the next picture.
final class LiveListReader<Source: ListSource>: Sendable {
  typealias Group = Source.Group
  typealias ID = Source.ID
  typealias Row = ListRow<Source.Element>

  /// What the main actor has asked for.
  struct Request: Sendable {
    enum Move: Sendable {
      case grow(ListEdge, Int)
      case jump(ID)
      case jumpTo(ListIndex)
    }

    var moves: [Move] = []
    var prefetched: [ListIndex] = []
    /// The condition, if another one was set.
    var condition: (keeps: (@Sendable (Source.Element) -> Bool)?, number: UInt64)?
    var sections: ListSections<Group>?

    var isEmpty: Bool { moves.isEmpty && prefetched.isEmpty && condition == nil && sections == nil }

    /// Puts back what could not be done before what was asked for since.
    mutating func putBack(_ earlier: Request) {
      moves = earlier.moves + moves
      prefetched = earlier.prefetched + prefetched
      condition = condition ?? earlier.condition
      sections = sections ?? earlier.sections
    }
  }

  private struct Asked {
    var request = Request()
    var conditionNumber: UInt64 = 0
    /// Whether the last picture has not been set.
    var isUnapplied = false
  }

  private struct State {
    var mapping: ListMapping<Source>
    var place: ListWindowPlace
    var rows: [Row] = []
    /// The elements that may have changed since the rows were read, or `nil` if any may have.
    var changed: Set<ID>? = []
    var prefetched: [ListIndex: Row] = [:]
    var conditionNumber: UInt64 = 0
    var changes: ListChanges<Group>?
  }

  /// The number of rows outside of the window that are kept.
  static var prefetchedMaximum: Int { 1_000 }

  private let source: Source
  private let asked = FutexLock(Asked())
  private let state: Mutex<State>

  init(_ source: Source, _ sections: ListSections<Group>, _ window: ListWindow) {
    self.source = source
    state = Mutex(State(mapping: ListMapping(source, sections: sections), place: ListWindowPlace(window)))
  }

  // MARK: - The main actor

  func request(_ change: (inout Request) -> Void) { asked.withLock { change(&$0.request) } }

  /// Sets a condition, and ends the search for another one. Returns its number.
  func filter(where keeps: (@Sendable (Source.Element) -> Bool)?) -> UInt64 {
    asked.withLock { asked in
      asked.conditionNumber += 1
      asked.request.condition = (keeps, asked.conditionNumber)
      return asked.conditionNumber
    }
  }

  /// Notes that the last picture has been set.
  func didApply() { asked.withLock { $0.isUnapplied = false } }

  // MARK: - A step

  /// Returns the next picture, or `nil` if another condition was set meanwhile: the next step then begins at once.
  func read(_ step: LiveStep) throws -> LiveListPicture<Source>? {
    try state.withLock { state in
      let (request, isUnapplied) = asked.withLock { asked in
        defer { asked.request = Request() }
        return (asked.request, asked.isUnapplied)
      }
      do {
        let picture = try read(step, request, isUnapplied, &state)
        asked.withLock { $0.isUnapplied = true }
        return picture
      } catch {
        asked.withLock { $0.request.putBack(request) }
        guard error is CancellationError, !Task.isCancelled else { throw error }
        return nil
      }
    }
  }

  private func read(
    _ step: LiveStep, _ request: Request, _ isUnapplied: Bool, _ state: inout State
  ) throws -> LiveListPicture<Source> {
    if let sections = request.sections {
      state.mapping.configuration = sections
      state.mapping.isReconfigured = true
    }
    if let (keeps, number) = request.condition {
      state.mapping.condition = keeps.map { keeps in
        .init(keeps: keeps) { [weak self] in self?.asked.withLock { $0.conditionNumber } != number }
      }
      state.mapping.isReconfigured = true
      state.conditionNumber = number
    }
    var changes = try state.mapping.advance(by: step)
    state.changed = Self.union(state.changed, state.mapping.lastChanged)
    if state.changes != nil || isUnapplied { changes = .reload(from: changes.from, to: changes.to) }
    // If reading the rows fails, the next step reports these changes, too.
    state.changes = changes
    var departed: [ID: ID] = [:]
    if state.mapping.snapshot != nil {
      departed = try state.mapping.read { tx in try readRows(request, tx, &state) }
    }
    state.changes = nil
    var picture = makePicture(state)
    picture.changes = changes
    picture.isSame = changes.isEmpty && request.isEmpty && !isUnapplied
    picture.departed = departed
    return picture
  }

  private static func union(_ left: Set<ID>?, _ right: Set<ID>?) -> Set<ID>? {
    guard let left, let right else { return nil }
    return left.union(right)
  }

  /// Reads the rows of the window. Returns what was near the rows that have gone.
  private func readRows(
    _ request: Request, _ tx: ReadTransaction, _ state: inout State
  ) throws -> [ID: ID] {
    let mapping = state.mapping
    let total = mapping.count
    var place = state.place
    if state.rows.isEmpty || !place.isAway {
      place.begin(total)
    } else {
      place.place(at: try anchor(state, tx) ?? place.rows.lowerBound, total)
    }
    for move in request.moves {
      switch move {
      case .grow(let edge, let count): place.grow(edge, by: count, total)
      case .jump(let id):
        if let index = try mapping.index(of: id, tx) { place.center(mapping.picture.flat(index), total) }
      case .jumpTo(let index): place.center(mapping.picture.nearestFlat(index), total)
      }
    }

    let before = Dictionary(state.rows.map { ($0.id, $0) }) { first, _ in first }
    let ids = try mapping.ids(atFlat: place.rows, tx)
    let rows = try ids.map { id in
      if let known = before[id], let changed = state.changed, !changed.contains(id) { return known }
      return try row(id, tx)
    }
    if state.changed?.isEmpty ?? false, state.changes?.isEmpty ?? false {
      state.prefetched = state.prefetched.filter { mapping.picture.contains($0.key) }
    } else {
      state.prefetched = [:]
    }
    for index in request.prefetched where mapping.picture.contains(index) {
      let flat = mapping.picture.flat(index)
      guard !place.rows.contains(flat), state.prefetched[index] == nil,
        let id = try mapping.ids(atFlat: flat..<(flat + 1), tx).first
      else { continue }
      if state.prefetched.count >= Self.prefetchedMaximum { state.prefetched = [:] }
      state.prefetched[index] = try row(id, tx)
    }
    defer {
      (state.rows, state.place, state.changed) = (rows, place, [])
    }
    return Self.departed(from: state.rows.map(\.id), to: Set(ids))
  }

  /// Reads a row. One that can't be decoded is a placeholder.
  private func row(_ id: ID, _ tx: ReadTransaction) throws -> Row {
    do {
      guard let element = try source.element(id, tx) else {
        throw DatabaseError(.notFound, "the source lists an element \(id) and has no row of it")
      }
      return Row(id, .success(element))
    } catch let error as CancellationError { throw error } catch let error as DatabaseError
      where error.code == .snapshotTooOld || error.code == .closed
    { throw error } catch { return Row(id, .failure(error)) }
  }

  /// Returns the place of the first row of the window: that of the first loaded row that is still there and has not
  /// changed, minus the changed ones that are still before it.
  private func anchor(_ state: State, _ tx: ReadTransaction) throws -> Int? {
    func flat(_ id: ID) throws -> Int? {
      try state.mapping.index(of: id, tx).map { state.mapping.picture.flat($0) }
    }
    for mayHaveChanged in [false, true] {
      for (position, row) in state.rows.enumerated() {
        if !mayHaveChanged, state.changed?.contains(row.id) ?? false { continue }
        guard let found = try flat(row.id) else { continue }
        let before = try state.rows[..<position].reduce(0) { count, earlier in
          guard let place = try flat(earlier.id), place < found, place >= found - position else { return count }
          return count + 1
        }
        return found - before
      }
    }
    return nil
  }

  private static func departed(from before: [ID], to now: Set<ID>) -> [ID: ID] {
    var departed: [ID: ID] = [:]
    var gone: [ID] = []
    var last: ID?
    for id in before {
      if now.contains(id) {
        for other in gone { departed[other] = id }
        gone = []
        last = id
      } else {
        gone.append(id)
      }
    }
    if let last { for other in gone { departed[other] = last } }
    return departed
  }

  private func makePicture(_ state: State) -> LiveListPicture<Source> {
    let mapping = state.mapping
    var picture = LiveListPicture<Source>()
    picture.count = mapping.count
    picture.version = mapping.version
    picture.conditionNumber = state.conditionNumber
    picture.isCut = mapping.isCut
    picture.prefetched = state.prefetched
    picture.state = mapping.isBuilding ? .building(source.progress) : .loaded
    for index in mapping.picture.sections.indices {
      let start = mapping.picture.starts[index]
      let all = start..<mapping.picture.starts[index + 1]
      let shown = state.place.rows.clamped(to: all)
      let first = shown.lowerBound - state.place.rows.lowerBound
      let rows = shown.isEmpty ? [] : state.rows[first..<(first + shown.count)]
      picture.sections.append(
        ListSection(
          group: mapping.picture.group(ofSection: index), count: all.count,
          offset: shown.isEmpty ? 0 : shown.lowerBound - start, rows: Array(rows)))
      for (position, row) in rows.enumerated() {
        picture.places[row.id] = ListIndex(section: index, offset: shown.lowerBound - start + position)
      }
    }
    return picture
  }
}
