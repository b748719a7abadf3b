public import Varve

/// Moving a list from snapshot to snapshot.
extension ListMapping {
  /// Moves to a later snapshot, and returns what has changed since the one before. `events` are all commits between the
  /// two, in order: those of `Connection.advanceHolding()`, or of `HeldSnapshot.events(after:)`. If there are none,
  /// they are read from the feed.
  ///
  /// The first step is a reload. While the source is being built, the mapping keeps its picture and its snapshot, and
  /// remembers the commits. For the same snapshot and no events, nothing changes. If the old snapshot can't be read any
  /// more, the result is a reload.
  ///
  /// Throws what reading the new snapshot throws; the mapping then stays where it is, and a later step reports
  /// everything since then.
  public mutating func advance(
    to snapshot: HeldSnapshot, after events: [ChangeEvent]
  ) throws -> ListChanges<Group> {
    guard events.isEmpty, let noted else { return try advance(to: snapshot, afterAll: events) }
    return try advance(to: snapshot, afterAll: try snapshot.events(after: noted))
  }

  private mutating func advance(
    to snapshot: HeldSnapshot, afterAll events: [ChangeEvent]
  ) throws -> ListChanges<Group> {
    note(events, through: snapshot.version)
    var next = self
    let changes = try next.move(to: snapshot)
    self = next
    return changes
  }

  /// Moves by a step. If it does not begin at the mapping's snapshot, the commits since that one are read from the
  /// feed.
  public mutating func advance(by step: LiveStep) throws -> ListChanges<Group> {
    guard let noted, step.old?.version != noted else { return try advance(to: step.new, afterAll: step.events) }
    return try advance(to: step.new, afterAll: try step.new.events(after: noted))
  }

  /// Moves a connection to the current snapshot (`Connection.advanceHolding()`), and the mapping with it.
  public mutating func advance(with connection: Connection) throws -> ListChanges<Group> {
    try advance(by: try connection.advanceHolding())
  }

  /// Shows other sections, at the same snapshot, and returns what changes.
  public mutating func show(_ sections: ListSections<Group>) throws -> ListChanges<Group> {
    try reconfigured { $0.configuration = sections }
  }

  /// Shows only the elements that fulfil a condition, or all of them for `nil`, at the same snapshot. Returns what
  /// changes. If the task is cancelled meanwhile, throws `CancellationError` and changes nothing.
  public mutating func filter(where keeps: (@Sendable (Source.Element) -> Bool)?) throws -> ListChanges<Group> {
    try reconfigured { $0.condition = keeps.map { .init(keeps: $0, isObsolete: { false }) } }
  }

  private mutating func reconfigured(_ change: (inout ListMapping) -> Void) throws -> ListChanges<Group> {
    var next = self
    change(&next)
    guard let snapshot else {
      self = next
      return ListChanges(from: nil, to: .zero)
    }
    next.isReconfigured = true
    let changes = try next.move(to: snapshot)
    self = next
    return changes
  }

  /// Remembers commits until the mapping has moved beyond them.
  private mutating func note(_ events: [ChangeEvent], through version: CommitVersion) {
    guard snapshot != nil else { return }
    noted = version
    guard let known = waiting else { return }
    waiting = known.count + events.count <= Self.waitingMaximum || known.isEmpty ? known + events : nil
  }

  // MARK: - A step

  mutating func move(to snapshot: HeldSnapshot) throws -> ListChanges<Group> {
    let old = self.snapshot
    lastChanged = []
    let empty = ListChanges<Group>(from: old?.version, to: snapshot.version)
    if let old, old.version == snapshot.version, waiting?.isEmpty ?? false, !isReconfigured { return empty }
    return try snapshot.read { tx in
      guard let present = try source.generation(tx) else {
        isBuilding = true
        var changes = empty
        changes.isBuilding = true
        return changes
      }
      isBuilding = false
      let flags = try old.flatMap { $0.version <= snapshot.version ? try changedFlags(tx) : nil }
      let isExact = present == generation && !isReconfigured && !isCut
      let changes: ListChanges<Group>
      if let old, let flags, isExact, flags.count <= Self.comparedMaximum,
        let places = try matches == nil ? places(flags, old, tx) : matchPlaces(flags, tx)
      {
        changes = try finish(places, empty, tx)
      } else {
        changes = try compareAll(flags, old, empty, tx)
      }
      (generation, waiting, isReconfigured) = (present, [], false)
      (self.snapshot, noted) = (snapshot, snapshot.version)
      lastChanged = flags.map { Set($0.keys) }
      return changes
    }
  }

  /// Returns what the commits that wait have changed, or `nil` if that is not known.
  private func changedFlags(_ tx: ReadTransaction) throws -> [ID: ListFlags]? {
    guard let waiting else { return nil }
    var flags: [ID: ListFlags] = [:]
    for event in waiting {
      guard case .changes(let changes) = event, let found = try source.changedIDs(by: changes, tx) else { return nil }
      flags.merge(found) { $0.union($1) }
    }
    return flags
  }

  /// Returns what `body` reads of a snapshot, or `nil` if it can't be read any more: what it needs was removed by the
  /// program that writes, or the definition that it has is no longer there.
  private func readOld<Result>(_ old: HeldSnapshot, _ body: (ReadTransaction) throws -> Result) throws -> Result? {
    do { return try old.read(body) } catch let error as CancellationError { throw error } catch { return nil }
  }

  // MARK: - Changed rows

  /// The places of the elements that may have changed, and the present numbers of elements of their groups.
  struct Places {
    var old: [ID: ListPlaceChange<Group>.Place] = [:]
    var new: [ID: ListPlaceChange<Group>.Place] = [:]
    var flags: [ID: ListFlags]
    var counts: [Group: Int] = [:]
    var matches: ListMatches<Source>?
  }

  /// Returns the places in both snapshots, or `nil` if the old one can't be read.
  private func places(_ flags: [ID: ListFlags], _ old: HeldSnapshot, _ tx: ReadTransaction) throws -> Places? {
    var places = Places(flags: flags)
    if flags.isEmpty { return places }
    let before = try readOld(old) { oldTx in
      var before: [ID: ListPlaceChange<Group>.Place] = [:]
      for id in flags.keys {
        guard let group = try source.group(of: id, oldTx), picture.slotNumbers[group] != nil,
          let place = try source.place(of: id, oldTx)
        else { continue }
        before[id] = .init(group: place.group, offset: place.offset)
      }
      return before
    }
    guard let before else { return nil }
    places.old = before
    for id in flags.keys {
      guard let group = try source.group(of: id, tx), configuration.shows(group),
        let place = try source.place(of: id, tx)
      else { continue }
      places.new[id] = .init(group: place.group, offset: place.offset)
    }
    for group in Set(places.old.values.map(\.group)).union(places.new.values.map(\.group)) {
      places.counts[group] = try source.count(in: group, tx)
    }
    return places
  }

  /// Returns the places among the matches, or `nil` if there are now more than are kept.
  private func matchPlaces(_ flags: [ID: ListFlags], _ tx: ReadTransaction) throws -> Places? {
    guard let matches, let condition else { return nil }
    var places = Places(flags: flags)
    var present: [(id: ID, group: Group, offset: Int)] = []
    for id in flags.keys {
      guard let group = try source.group(of: id, tx), configuration.shows(group),
        ListMatches<Source>.keeps(id, source, condition, tx), let place = try source.place(of: id, tx)
      else { continue }
      present.append((id, place.group, place.offset))
    }
    let next = try matches.changed(Set(flags.keys), present, source, tx)
    guard next.count <= ListMatches<Source>.maximum else { return nil }
    for (group, ids) in matches.ids {
      for (offset, id) in ids.enumerated() where flags[id] != nil {
        places.old[id] = .init(group: group, offset: offset)
      }
    }
    for (group, ids) in next.ids {
      for (offset, id) in ids.enumerated() where flags[id] != nil {
        places.new[id] = .init(group: group, offset: offset)
      }
    }
    for group in Set(matches.ids.keys).union(next.ids.keys) { places.counts[group] = next.ids[group]?.count ?? 0 }
    places.matches = next
    return places
  }

  /// Makes the new picture, and compares it with the old one.
  private mutating func finish(
    _ places: Places, _ empty: ListChanges<Group>, _ tx: ReadTransaction
  ) throws -> ListChanges<Group> {
    if places.old.isEmpty, places.new.isEmpty { return empty }
    var changed: [ListPlaceChange<Group>] = []
    var groups: [Group: ListGroupChange] = [:]
    for (group, count) in places.counts {
      groups[group] = ListGroupChange(oldCount: picture.slot(of: group)?.count ?? 0, newCount: count)
    }
    for id in Set(places.old.keys).union(places.new.keys) {
      let (old, new) = (places.old[id], places.new[id])
      if let old { groups[old.group]?.addOld(old.offset, changed.count) }
      if let new { groups[new.group]?.addNew(new.offset, changed.count) }
      changed.append(ListPlaceChange(old: old, new: new, flags: places.flags[id] ?? []))
    }
    for group in groups.keys { groups[group]?.sort() }

    let shown = try arranged(places.counts, places.matches, tx)
    let before = picture
    let next = ListPicture(shown, configuration) { group, count in
      guard let range = configuration.range(of: group) else { return 0..<count }
      let isReversed = configuration.isReversed(group)
      guard !range.isFixed, let old = before.slot(of: group), old.count > 0 else {
        return range.initial(count, isReversed: isReversed)
      }
      let isLow = range.isPinnedLow(isReversed: isReversed)
      let followed = groups[group].map {
        $0.followed(
          old.range, growsLow: range.growth == .both || range.growth == (isLow ? .pinned : .other),
          growsHigh: range.growth == .both || range.growth == (isLow ? .other : .pinned))
      }
      return range.bounded(followed ?? old.range, count, isReversed: isReversed)
    }
    picture = next
    matches = places.matches
    return ListComparison.changes(before, next, groups, changed, configuration, empty)
  }

  /// Returns the shown groups with their present numbers of elements, given those that have changed.
  private func arranged(
    _ counts: [Group: Int], _ matches: ListMatches<Source>?, _ tx: ReadTransaction
  ) throws -> [(group: Group, count: Int)] {
    let hasNew = counts.contains { $0.value > 0 && picture.slotNumbers[$0.key] == nil }
    if hasNew { return try arranged(matches, tx) }
    return picture.slots.map { ($0.group, counts[$0.group] ?? $0.count) }
      .filter { $0.1 > 0 || !configuration.isHiddenIfEmpty($0.0) }
  }

  /// Returns the shown groups with their present numbers of elements.
  func arranged(_ matches: ListMatches<Source>?, _ tx: ReadTransaction) throws -> [(group: Group, count: Int)] {
    var all: [(group: Group, count: Int)]
    switch configuration.choice {
    case .fixed(let groups): all = try groups.map { ($0, try source.count(in: $0, tx)) }
    case .dynamic: all = try source.groups(in: tx)
    }
    if let matches { all = all.map { ($0.group, matches.ids[$0.group]?.count ?? 0) } }
    return configuration.arranged(all)
  }
}
