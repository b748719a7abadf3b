internal import Varve

/// The changes of a transaction since rules were last applied, as far as rules need them.
///
/// The edges themselves are written to the families at once, so that queries find them there and savepoints undo them.
/// The log has the remaining information: which rows were removed, which edges existed before, and which have to be
/// checked.
struct EdgeLog {
  /// An edge that was added, removed or changed.
  struct Change {
    let isManual: Bool
    /// The previous value of the edge, or nil if it did not exist.
    let before: EdgeValue?
    /// The reason of its removal.
    let reason: EdgeRemoval
    /// Whether the edge has to be checked for dangling after rules were applied.
    let isChecked: Bool
  }

  /// The ends of rows that were removed.
  private(set) var deaths = PackedKeys()
  /// The ends of rows that were inserted with edges, none of which existed when rules were last applied.
  private(set) var fresh = PackedKeys()
  /// The keys by destination of edges that have changed.
  private(set) var changedKeys = PackedKeys()
  private(set) var changes: [Change] = []
  /// The ends of the rows that rules have removed.
  private(set) var removedByRules = PackedKeys()
  /// The ends of those rows that were created again, which no rule removes a second time.
  private(set) var recreated = PackedKeys()
  /// The first `count` elements of `removedByRules` as a set, or nil if it was not created yet.
  private var removedSet: (ends: Set<[UInt8]>, count: Int)?
  /// Whether rules were applied before.
  var hasFlushed = false
  /// Whether rows were inserted.
  private(set) var hasInsertions = false
  /// Whether rows were inserted after others were removed, so that they may be the same.
  private(set) var hasInsertionsAfterDeaths = false
  /// The counts when rules were last applied.
  private var taken = Counts()

  /// The numbers of logged elements.
  struct Counts: Equatable {
    var deaths = 0
    var fresh = 0
    var changes = 0
  }

  /// The state of the log at a savepoint.
  struct Mark {
    fileprivate let counts: Counts
    fileprivate let taken: Counts
    fileprivate let removedByRules: Int
    fileprivate let recreated: Int
    fileprivate let hasFlushed: Bool
  }

  private var counts: Counts { Counts(deaths: deaths.count, fresh: fresh.count, changes: changes.count) }

  /// Whether there are changes to which rules were not applied.
  var hasUnprocessed: Bool { counts != taken }
  /// Whether any rows were removed.
  var hasRemovedRows: Bool { !deaths.isEmpty }

  mutating func noteDeath(_ end: [UInt8]) { deaths.append(end) }
  mutating func noteFresh(_ end: [UInt8]) { fresh.append(end) }
  mutating func note(_ change: Change, of toKey: ArraySlice<UInt8>) {
    changedKeys.append(toKey)
    changes.append(change)
  }

  mutating func noteRemoval(byRules end: [UInt8]) { removedByRules.append(end) }

  /// Notes the insertion of a row before any row was removed.
  mutating func noteInsertion() { hasInsertions = true }

  /// Notes the insertion of a row, which may be one that a rule has removed.
  mutating func noteInsertion(_ end: [UInt8]) {
    hasInsertions = true
    if !deaths.isEmpty { hasInsertionsAfterDeaths = true }
    if removedByRules.isEmpty { return }
    var (ends, count) = removedSet ?? ([], 0)
    removedSet = nil
    for index in count..<removedByRules.count { ends.insert(Array(removedByRules.appended(index))) }
    count = removedByRules.count
    if ends.contains(end) { recreated.append(end) }
    removedSet = (ends, count)
  }

  // MARK: - Savepoints

  var mark: Mark {
    Mark(
      counts: counts, taken: taken, removedByRules: removedByRules.count, recreated: recreated.count,
      hasFlushed: hasFlushed)
  }

  mutating func rollBack(to mark: Mark) {
    deaths.truncate(to: mark.counts.deaths)
    fresh.truncate(to: mark.counts.fresh)
    changedKeys.truncate(to: mark.counts.changes)
    changes.removeSubrange(mark.counts.changes...)
    taken = mark.taken
    hasFlushed = mark.hasFlushed
    if removedByRules.count > mark.removedByRules { removedSet = nil }
    removedByRules.truncate(to: mark.removedByRules)
    recreated.truncate(to: mark.recreated)
  }

  // MARK: - Unprocessed changes

  /// The changes to which rules were not applied.
  struct UnprocessedChanges {
    /// The removed rows in order, each once.
    var deaths: PackedKeys
    /// The inserted rows with edges in order, each once.
    var fresh: PackedKeys
    /// The keys of changed edges in order; those of the same edge are in the order of the changes.
    var changedKeys: PackedKeys
    /// The changes by the positions of the keys.
    var changes: [Change]
  }

  /// Returns the unprocessed changes, and marks them as handled.
  mutating func takeUnprocessed() -> UnprocessedChanges {
    var unprocessed = UnprocessedChanges(
      deaths: deaths.suffix(from: taken.deaths), fresh: fresh.suffix(from: taken.fresh),
      changedKeys: changedKeys.suffix(from: taken.changes), changes: Array(changes[taken.changes...]))
    taken = counts
    unprocessed.deaths.sort()
    unprocessed.fresh.sort()
    unprocessed.changedKeys.sort(keepsEqual: true)
    return unprocessed
  }
}
