/// What counts of the entries that a batch holds for a family, in the order of the keys.
///
/// # What counts
/// Of each key the newest entry that was not undone and that no newer range delete covers. Single deletes and operands
/// need more: see `EntryChain`. Operands are folded: over the put or delete before them into one put, else, where the
/// operator combines them, into one operand. An operator that refuses leaves them as they are.
///
/// # Savepoints
/// A tree that is remade while savepoints are set has to answer for each of them. So entries are compared only with those
/// of their own section, between two savepoints: what is the last word at the end of its section counts.
///
/// Complexity: one pass over the tree, and a search in the range deletes for each key where there are any.
struct LivingEntries {
  let family: PendingFamily
  /// The newest number.
  let last: UInt64
  let undone: UndoneNumbers
  let stamps: PendingStamps
  /// The numbers at which sections begin, ascending. None: everything is one section.
  var sections: [UInt64] = []

  struct Entry {
    let kind: EntryKind
    let number: UInt64
    let value: ByteView
  }

  /// The memory that is used again from key to key.
  private struct Workspace: ~Copyable {
    /// The entries of a key that were not undone, newest first.
    var group: [Entry] = []
    /// Those that count, newest first.
    var kept: [Entry] = []
    var operands = OperandStack()
    var folded = MergeValue()
  }

  /// Calls `body` for each entry that counts: its number, its kind, key and value. Of one key and section the oldest comes
  /// first. The views are valid during the call.
  func forEach(
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    var space = Workspace()
    var iterator = family.table.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      // Views of a tree's entries last as long as the tree.
      let key = iterator.userKey
      let trailer = iterator.trailer
      let value = iterator.value
      iterator.next()
      // Most keys have one entry, which is alone.
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
  }

  /// The kind of an entry that was not undone.
  @inline(__always)
  private func counts(_ trailer: Trailer) -> EntryKind? {
    undone.isEmpty || !undone.contains(trailer.sequence) ? trailer.kind : nil
  }

  @inline(__always)
  private func add(_ trailer: Trailer, _ value: ByteView, _ space: inout Workspace) {
    guard let kind = counts(trailer) else { return }
    space.group.append(Entry(kind: kind, number: trailer.sequence.number, value: value))
  }

  /// Takes the entries of a key section by section.
  private func divide(
    _ key: ByteView, _ space: inout Workspace,
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    var start = 0
    while start < space.group.count {
      let section = section(of: space.group[start].number)
      var end = start + 1
      while end < space.group.count, space.group[end].number >= section.lowerBound { end += 1 }
      let covered =
        family.table.hasTombstones
        ? family.table.rangeTombstones.sequence(covering: key, at: .pending(section.upperBound - 1)) : .zero
      choose(start..<end, covered, &space)
      try yield(key, hasNothingBelow: covered != .zero, &space, body)
      start = end
    }
  }

  /// The numbers of the section that an entry is in.
  private func section(of number: UInt64) -> Range<UInt64> {
    var low = 0
    var high = sections.count
    while low < high {
      let middle = (low + high) / 2
      if sections[middle] <= number { low = middle + 1 } else { high = middle }
    }
    return (low > 0 ? sections[low - 1] : 0)..<(low < sections.count ? sections[low] : last + 1)
  }

  /// Leaves in `kept` what counts of a section's entries of a key.
  private func choose(_ range: Range<Int>, _ covered: SequenceNumber, _ space: inout Workspace) {
    space.kept.removeAll(keepingCapacity: true)
    var chain = EntryChain()
    var waiting: Entry?
    for index in range {
      let entry = space.group[index]
      if SequenceNumber.pending(entry.number) < covered { break }
      chain.add(entry.kind)
      if entry.kind == .singleDelete { waiting = entry }
      if chain.isNewestKept { space.kept.append(entry) }
      if chain.isEnded || (!family.hasSingleDeletes && entry.kind != .merge) { break }
    }
    if chain.waitingCount > 0, let waiting { space.kept.append(waiting) }
  }

  /// Calls `body` for the entries of `kept`, operands folded. `hasNothingBelow`: a range delete of the section covers what
  /// is older.
  private func yield(
    _ key: ByteView, hasNothingBelow: Bool, _ space: inout Workspace,
    _ body: (UInt64, EntryKind, ByteView, ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    guard let newest = space.kept.first else { return }
    let folded = newest.kind == .merge ? fold(key, hasNothingBelow: hasNothingBelow, &space) : nil
    for entry in space.kept.dropFirst(folded?.count ?? 0).reversed() {
      try body(entry.number, entry.kind, key, entry.value)
    }
    if let folded { try body(newest.number, folded.kind, key, space.folded.view) }
  }

  /// Folds the operands at the begin of `kept` into `folded`. Returns how many entries that replaces, and what the outcome
  /// is; nil: they stay.
  private func fold(
    _ key: ByteView, hasNothingBelow: Bool, _ space: inout Workspace
  ) -> (count: Int, kind: EntryKind)? {
    guard let merge = family.state.merge else { return nil }
    space.operands.removeAll()
    var count = 0
    while count < space.kept.count, space.kept[count].kind == .merge {
      let operand = space.kept[count]
      space.operands.push(operand.value, Trailer(.pending(operand.number), .merge))
      count += 1
    }
    let base = count < space.kept.count ? space.kept[count] : nil
    if let base, base.kind == .singleDelete { return nil }
    if let base, base.kind == .delete || stamps.place(of: base.number) == nil {
      let existing = base.kind == .put ? base.value : nil
      guard merge.merge(key, existing: existing, &space.operands, into: &space.folded) else { return nil }
      return (count + 1, .put)
    }
    if base == nil, hasNothingBelow {
      guard merge.merge(key, existing: nil, &space.operands, into: &space.folded) else { return nil }
      return (count, .put)
    }
    guard count > 1, merge.combine(key, space.operands, into: &space.folded) else { return nil }
    return (count, .merge)
  }
}

extension SequenceNumber {
  /// The number of an entry of an uncommitted batch: see `pending`.
  @inline(__always)
  var number: UInt64 { value - SequenceNumber.uncommitted.value }
}
