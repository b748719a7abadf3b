/// The entries of a batch for a family that count, in the order of the keys.
///
/// # Entries that count
/// Of each key the newest entry that was not undone and that no newer range delete covers. Single deletes and operands
/// need more: see `EntryChain`. Operands are folded: over the put or delete before them into one put, otherwise, if the
/// operator combines them, into one operand. If the operator refuses, they stay as they are. When a tree is rebuilt,
/// operands whose result would be larger than they are stay: so the new tree never needs more room than the old one.
///
/// # Savepoints
/// A tree that is rebuilt while savepoints are set has to answer for each of them. So entries are compared only with
/// those of their own section, between two savepoints: the entries that decide at the end of their section count.
///
/// Complexity: one pass over the tree, and a search in the range deletes for each key if there are any.
struct LiveEntries {
  let family: PendingFamily
  /// The newest number.
  let last: UInt64
  let undone: UndoneNumbers
  let stamps: PendingStamps
  /// The numbers at which sections begin, ascending. If it is empty, all entries are one section.
  var sections: [UInt64] = []
  var folding = Folding.all

  enum Folding {
    case all
    /// Folds only if the result is not larger than the entries that it replaces.
    case notLarger
    case none
  }

  struct Entry {
    let kind: EntryKind
    let number: UInt64
    let value: ByteView
  }

  /// Memory that is reused from key to key.
  private struct Workspace: ~Copyable {
    /// The entries of a key that were not undone, newest first.
    var group: [Entry] = []
    /// The entries that count, newest first.
    var kept: [Entry] = []
    var operands = OperandStack()
    var folded = MergeValue()
    /// The changes by folding in the size of the entries that count at the end of a section, relative to the previous
    /// section.
    ///
    /// Empty if there is no change.
    var steps: [PendingSize] = []
  }

  /// The replacement described by `folded`.
  private struct Fold {
    let kind: EntryKind
    /// The number of newest entries of `kept` that it replaces.
    let count: Int
    let change: PendingSize
  }

  /// Calls `body` for each entry that counts, with its number, kind, key and value.
  ///
  /// Within a key and section the oldest comes first. The views are valid during the call.
  ///
  /// Returns the change by folding in the size of the entries that count at the end of each section, the last of which
  /// ends now. The array is empty if no operand was folded.
  @discardableResult
  func forEach(
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) -> [PendingSize] {
    var space = Workspace()
    var iterator = family.table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      // Views of a tree's entries live as long as the tree.
      let key = iterator.userKey
      let trailer = iterator.trailer
      let value = iterator.value
      iterator.next()
      // Most keys have a single entry.
      if !iterator.isValid || iterator.userKey != key {
        if let kind = counts(trailer), !family.table.hasTombstones {
          try body(trailer.sequence.number, kind, key, value)
          continue
        }
      }
      space.group.removeAll(keepingCapacity: true)
      add(trailer, value, &space)
      while iterator.isValid, iterator.userKey == key {
        add(iterator.trailer, iterator.value, &space)
        iterator.next()
      }
      try divide(key, &space, body)
    }
    if space.steps.isEmpty { return [] }
    var change = PendingSize()
    return space.steps.dropLast().map { step in
      change += step
      return change
    }
  }

  /// Returns the kind of an entry that was not undone, and otherwise `nil`.
  @inline(__always)
  private func counts(_ trailer: Trailer) -> EntryKind? {
    undone.isEmpty || !undone.contains(trailer.sequence) ? trailer.kind : nil
  }

  @inline(__always)
  private func add(_ trailer: Trailer, _ value: ByteView, _ space: inout Workspace) {
    guard let kind = counts(trailer) else { return }
    space.group.append(Entry(kind: kind, number: trailer.sequence.number, value: value))
  }

  /// Processes the entries of a key section by section.
  private func divide(
    _ key: ByteView, _ space: inout Workspace,
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    // Across sections a single delete depends on the put before it: folding must neither create nor remove one.
    let hasSingleDelete = family.hasSingleDeletes && space.group.contains { $0.kind == .singleDelete }
    let isFolding = folding == .all || (folding == .notLarger && !hasSingleDelete)
    var start = 0
    /// The section from which on entries of older ones do not count.
    var hiddenFrom = sections.count + 1
    while start < space.group.count {
      let section = section(of: space.group[start].number)
      let lower = section > 0 ? sections[section - 1] : 0
      var end = start + 1
      while end < space.group.count, space.group[end].number >= lower { end += 1 }
      let covered = covering(key, atEndOf: section)
      // A range delete of an older section does not count, because older sections may have entries above it.
      let isCovered = covered >= .pending(lower)
      let hidesOlder = choose(start..<end, covered, &space)
      let fold = isFolding ? fold(key, hasNothingBelow: isCovered, &space) : nil
      if let fold, fold.change != PendingSize() {
        let number = space.kept[0].number
        note(fold.change, from: section, to: firstSection(hiding: key, number, section, hiddenFrom), &space)
      }
      try yield(key, fold, &space, body)
      if hidesOlder || isCovered { hiddenFrom = section }
      start = end
    }
  }

  /// Returns the index of the section that an entry is in.
  private func section(of number: UInt64) -> Int {
    var low = 0
    var high = sections.count
    while low < high {
      let middle = (low + high) / 2
      if sections[middle] <= number { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Returns the sequence of the newest range delete over a key, of a section and earlier ones.
  private func covering(_ key: ByteView, atEndOf section: Int) -> SequenceNumber {
    guard family.table.hasTombstones else { return .zero }
    let end = section < sections.count ? sections[section] : last + 1
    return family.table.rangeTombstones.sequence(covering: key, at: .pending(end - 1))
  }

  /// Returns the first section after `section`, and before `limit`, in which a range delete covers an entry.
  ///
  /// Returns `limit` if there is none.
  private func firstSection(hiding key: ByteView, _ number: UInt64, _ section: Int, _ limit: Int) -> Int {
    guard family.table.hasTombstones else { return limit }
    var low = section + 1
    var high = limit
    while low < high {
      let middle = (low + high) / 2
      if covering(key, atEndOf: middle) > .pending(number) { high = middle } else { low = middle + 1 }
    }
    return low
  }

  /// Records a change in the size of the entries that count at the ends of some sections.
  private func note(_ change: PendingSize, from section: Int, to limit: Int, _ space: inout Workspace) {
    if space.steps.isEmpty { space.steps = Array(repeating: PendingSize(), count: sections.count + 2) }
    space.steps[section] += change
    space.steps[limit] -= change
  }

  /// Stores in `kept` the entries of a key in a section that count.
  ///
  /// Returns whether they hide older entries, unless there are single deletes among them.
  private func choose(_ range: Range<Int>, _ covered: SequenceNumber, _ space: inout Workspace) -> Bool {
    space.kept.removeAll(keepingCapacity: true)
    var chain = EntryChain(hasSingleDeletes: family.hasSingleDeletes)
    var waiting: Entry?
    for index in range {
      let entry = space.group[index]
      if SequenceNumber.pending(entry.number) < covered { break }
      chain.add(entry.kind)
      if entry.kind == .singleDelete { waiting = entry }
      if chain.isNewestKept { space.kept.append(entry) }
      if chain.isEnded { break }
    }
    if chain.waitingCount > 0, let waiting { space.kept.append(waiting) }
    return chain.hidesOlder
  }

  /// Calls `body` for the entries of `kept`, the newest of them folded.
  private func yield(
    _ key: ByteView, _ fold: Fold?, _ space: inout Workspace,
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    for entry in space.kept.dropFirst(fold?.count ?? 0).reversed() {
      try body(entry.number, entry.kind, key, entry.value)
    }
    if let fold { try body(space.kept[0].number, fold.kind, key, space.folded.view) }
  }

  /// Folds the operands at the start of `kept` into `folded`, and returns `nil` if they stay.
  ///
  /// `hasNothingBelow` means that a range delete of the section covers all older entries.
  private func fold(_ key: ByteView, hasNothingBelow: Bool, _ space: inout Workspace) -> Fold? {
    guard let newest = space.kept.first, newest.kind == .merge, let merge = family.state.merge else { return nil }
    space.operands.removeAll()
    var count = 0
    while count < space.kept.count, space.kept[count].kind == .merge {
      let operand = space.kept[count]
      space.operands.push(operand.value, Trailer(.pending(operand.number), .merge))
      count += 1
    }
    let base = count < space.kept.count ? space.kept[count] : nil
    if let base, base.kind == .singleDelete { return nil }
    var kind = EntryKind.put
    if let base, base.kind == .delete || stamps.location(of: base.number) == nil {
      let existing = base.kind == .put ? base.value : nil
      guard merge.merge(key, existing: existing, &space.operands, into: &space.folded) else { return nil }
      count += 1
    } else if base == nil, hasNothingBelow {
      guard merge.merge(key, existing: nil, &space.operands, into: &space.folded) else { return nil }
    } else {
      guard count > 1, merge.combine(key, &space.operands, into: &space.folded) else { return nil }
      kind = .merge
    }
    var change = PendingSize()
    change.add(family.size(kind, keySize: key.count, valueSize: space.folded.byteCount))
    for entry in space.kept.prefix(count) {
      change.remove(family.size(entry.kind, keySize: key.count, valueSize: entry.value.count))
    }
    if folding == .notLarger, change.byteCount > 0 { return nil }
    return Fold(kind: kind, count: count, change: change)
  }
}

extension SequenceNumber {
  /// The number of an entry of an uncommitted batch: see `pending`.
  @inline(__always)
  var number: UInt64 { value - SequenceNumber.uncommitted.value }
}
