internal import Varve

/// What a transaction has changed since rules were applied last, as far as rules need to know it.
///
/// The edges themselves stand in the families at once, so that queries find them there and savepoints undo them. The log has
/// what these can't say: which rows were removed, which edges stood there before, and which have to be looked at.
struct EdgeLog {
  /// An edge that came, went or changed.
  struct Change {
    let isManual: Bool
    /// What it was before; nil: it was not there.
    let before: EdgeValue?
    /// Why it went.
    let reason: EdgeRemoval
    /// Whether it has to lead somewhere when rules have been applied.
    let isChecked: Bool
  }

  /// The ends of rows that were removed.
  private(set) var deaths = PackedKeys()
  /// The ends of rows that were inserted with edges: none of these was there when rules were applied last.
  private(set) var fresh = PackedKeys()
  /// The keys by destination of edges that have changed.
  private(set) var changedKeys = PackedKeys()
  private(set) var changes: [Change] = []
  /// The ends of rows that rules have removed.
  private(set) var removedByRules = PackedKeys()
  /// The ends of those of them that were made again: no rule removes these a second time.
  private(set) var remade = PackedKeys()
  /// `removedByRules`, as far as it was looked for in it; nil: not yet.
  private var removedSet: (ends: Set<[UInt8]>, count: Int)?
  /// Whether rules were applied before.
  var hasFlushed = false
  /// Whether rows were inserted.
  private(set) var hasInsertions = false
  /// Whether rows were inserted after others were removed: they may be the same.
  private(set) var hasInsertionsAfterDeaths = false
  /// How much of each was there when rules were applied last.
  private var taken = Counts()

  /// How much there is.
  struct Counts: Equatable {
    var deaths = 0
    var fresh = 0
    var changes = 0
  }

  /// Where a savepoint was set.
  struct Mark {
    fileprivate let counts: Counts
    fileprivate let taken: Counts
    fileprivate let removedByRules: Int
    fileprivate let remade: Int
    fileprivate let hasFlushed: Bool
  }

  private var counts: Counts { Counts(deaths: deaths.count, fresh: fresh.count, changes: changes.count) }

  /// Whether there is something that rules have not been applied to.
  var hasNews: Bool { counts != taken }
  /// Whether rows were removed that rules have not been applied to.
  var hasDeaths: Bool { deaths.count > taken.deaths }
  /// Whether rows were removed at all.
  var hasEverDeaths: Bool { !deaths.isEmpty }

  mutating func noteDeath(_ end: [UInt8]) { deaths.append(end) }
  mutating func noteFresh(_ end: [UInt8]) { fresh.append(end) }
  mutating func note(_ change: Change, of toKey: ArraySlice<UInt8>) {
    changedKeys.append(toKey)
    changes.append(change)
  }

  mutating func noteRemoval(byRules end: [UInt8]) { removedByRules.append(end) }

  /// A row was inserted before any was removed.
  mutating func noteInsertion() { hasInsertions = true }

  /// A row was inserted: it may be one that a rule has removed.
  mutating func noteInsertion(_ end: [UInt8]) {
    hasInsertions = true
    if !deaths.isEmpty { hasInsertionsAfterDeaths = true }
    if removedByRules.isEmpty { return }
    var (ends, count) = removedSet ?? ([], 0)
    removedSet = nil
    for index in count..<removedByRules.count { ends.insert(Array(removedByRules.appended(index))) }
    count = removedByRules.count
    if ends.contains(end) { remade.append(end) }
    removedSet = (ends, count)
  }

  // MARK: - Savepoints

  var mark: Mark {
    Mark(
      counts: counts, taken: taken, removedByRules: removedByRules.count, remade: remade.count,
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
    remade.truncate(to: mark.remade)
  }

  // MARK: - News

  /// What rules have not been applied to.
  struct News {
    /// In their order, each once.
    var deaths: PackedKeys
    /// In their order, each once.
    var fresh: PackedKeys
    /// In their order; of one edge the earliest first.
    var changedKeys: PackedKeys
    /// By the positions of the keys.
    var changes: [Change]
  }

  /// Gives what is new, and counts it as dealt with.
  mutating func takeNews() -> News {
    var news = News(
      deaths: deaths.suffix(from: taken.deaths), fresh: fresh.suffix(from: taken.fresh),
      changedKeys: changedKeys.suffix(from: taken.changes), changes: Array(changes[taken.changes...]))
    taken = counts
    news.deaths.sort()
    news.fresh.sort()
    news.changedKeys.sort(keepsEqual: true)
    return news
  }
}
