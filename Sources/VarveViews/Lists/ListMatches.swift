internal import Varve

/// The elements of a list that fulfil a condition, by group, in the order of the groups.
struct ListMatches<Source: ListSource>: Sendable {
  typealias Group = Source.Group
  typealias ID = Source.ID

  /// A condition for the elements of a list, and a way to end a search for those that fulfil it.
  struct Condition: Sendable {
    let keeps: @Sendable (Source.Element) -> Bool
    /// Returns whether the result is not needed any more.
    let isObsolete: @Sendable () -> Bool
  }

  /// The largest number of matches that are kept.
  static var maximum: Int { 10_000 }
  /// The number of elements that are read at a time.
  private static var pageSize: Int { 256 }

  var ids: [Group: [ID]] = [:]
  /// Whether there may be more elements that fulfil the condition than the first ones, which are kept.
  var isCut = false

  var count: Int { ids.values.reduce(0) { $0 + $1.count } }

  init() {}

  /// Searches the shown groups in order. Throws `CancellationError` if the condition is obsolete or the task is
  /// cancelled.
  init(
    _ source: Source, _ groups: [(group: Group, count: Int)], _ configuration: ListSections<Group>,
    _ condition: Condition, _ tx: ReadTransaction
  ) throws {
    var left = Self.maximum
    for (group, count) in groups {
      let isReversed = configuration.isReversed(group)
      var found: [ID] = []
      var read = 0
      while read < count {
        if condition.isObsolete() || Task.isCancelled { throw CancellationError() }
        let size = min(Self.pageSize, count - read)
        let offsets = isReversed ? (count - read - size)..<(count - read) : read..<(read + size)
        let ids = try source.ids(in: group, at: offsets, tx)
        read += size
        for id in isReversed ? ids.reversed() : ids {
          guard Self.keeps(id, source, condition, tx) else { continue }
          if left == 0 {
            isCut = true
            break
          }
          left -= 1
          found.append(id)
        }
        if isCut { break }
      }
      if !found.isEmpty { ids[group] = isReversed ? found.reversed() : found }
      if isCut { return }
    }
  }

  /// Returns whether an element fulfils a condition. One that can't be read does not.
  static func keeps(_ id: ID, _ source: Source, _ condition: Condition, _ tx: ReadTransaction) -> Bool {
    guard let element = try? source.element(id, tx) else { return false }
    return condition.keeps(element)
  }

  /// Returns the matches after some elements have changed. `places` are the present places of the changed elements that
  /// fulfil the condition.
  func changed(
    _ changed: Set<ID>, _ places: [(id: ID, group: Group, offset: Int)], _ source: Source, _ tx: ReadTransaction
  ) throws -> ListMatches {
    var next = self
    for (group, old) in ids {
      let kept = old.filter { !changed.contains($0) }
      if kept.count < old.count { next.ids[group] = kept.isEmpty ? nil : kept }
    }
    for (group, new) in Dictionary(grouping: places, by: \.group) {
      let kept = next.ids[group] ?? []
      var merged: [ID] = []
      merged.reserveCapacity(kept.count + new.count)
      var taken = 0
      for place in new.sorted(by: { $0.offset < $1.offset }) {
        var (low, high) = (taken, kept.count)
        while low < high {
          let middle = (low + high) / 2
          let offset = try source.place(of: kept[middle], tx)?.offset ?? 0
          if offset < place.offset { low = middle + 1 } else { high = middle }
        }
        merged += kept[taken..<low]
        merged.append(place.id)
        taken = low
      }
      next.ids[group] = merged + kept[taken...]
    }
    return next
  }
}
