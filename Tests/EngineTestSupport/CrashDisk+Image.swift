import VarveEngine

extension CrashDisk {
  /// Returns the disk as it is found after a crash: no open files, no pending changes, everything durable.
  func afterCrash(_ policy: CrashPolicy, _ random: inout SeededRandom) -> CrashDisk {
    var result = self
    result.pending = []
    switch policy {
    case .processKill:
      for number in inodes.keys { result.settle(number, inodes[number]?.current) }
    case .loseAllUnsynced:
      result.directories = durableDirectories
      for number in inodes.keys { result.settle(number, inodes[number]?.durable) }
    case .keepRandomSectors:
      // Some images keep most sectors and others few.
      let chance = [8, 2, 1][random.below(3)]
      result.directories = durableDirectories
      for change in survivors(keepOneIn: chance, &random) { Self.apply(change, to: &result.directories) }
      // Ascending numbers, because the order of a dictionary differs from run to run.
      for number in inodes.keys.sorted() {
        guard let inode = inodes[number] else { continue }
        result.settle(number, inode.withRandomSectors(keepOneIn: chance, &random))
      }
    case .keepAllButReorder:
      result.directories = durableDirectories
      let lost = random.below(3)
      for change in survivors(losing: lost, &random) { Self.apply(change, to: &result.directories) }
      result.settleAllBut(1 + random.below(3), &random)
    }
    result.durableDirectories = result.directories
    result.removeUnreachable()
    return result
  }

  private mutating func settle(_ number: Int, _ content: SectorContent?) {
    guard let content else { return }
    var inode = Inode()
    inode.current = content
    inode.durable = content
    inodes[number] = inode
  }

  /// Makes every file durable as programs saw it, except for `count` sectors that keep the bytes of their last sync.
  private mutating func settleAllBut(_ count: Int, _ random: inout SeededRandom) {
    var candidates: [(number: Int, sector: Int)] = []
    for number in inodes.keys.sorted() {
      guard let inode = inodes[number] else { continue }
      candidates += inode.unsynced.map { (number, $0) }
    }
    var contents: [Int: SectorContent] = inodes.mapValues(\.current)
    for _ in 0..<min(count, candidates.count) {
      let lost = candidates[random.below(candidates.count)]
      guard let old = inodes[lost.number]?.durable.sector(lost.sector) else { continue }
      contents[lost.number]?.setSector(lost.sector, old)
    }
    for (number, content) in contents { settle(number, content) }
  }

  /// Returns the changes of names that survive: a random prefix, as in a journal, or a random selection that leaves
  /// out every change that shares a name with an earlier lost one.
  private func survivors(keepOneIn chance: Int, _ random: inout SeededRandom) -> [Change] {
    if random.oneIn(2) { return Array(pending.prefix(random.below(pending.count + 1))) }
    return withoutDependents { _ in !random.oneIn(chance) }
  }

  private func survivors(losing count: Int, _ random: inout SeededRandom) -> [Change] {
    guard !pending.isEmpty else { return [] }
    let lost = Set((0..<count).map { _ in random.below(pending.count) })
    return withoutDependents { lost.contains($0) }
  }

  private func withoutDependents(isLost: (Int) -> Bool) -> [Change] {
    var lostLocations: Set<Change.Location> = []
    return pending.indices.compactMap { index in
      let change = pending[index]
      // Drawn in every case, so that one draw does not depend on another.
      let isDrawn = isLost(index)
      guard isDrawn || change.shares(lostLocations) else { return change }
      lostLocations.formUnion(change.steps.map(\.location))
      return nil
    }
  }

  private mutating func removeUnreachable() {
    var reachable: Set<Int> = [Self.root]
    var waiting = [Self.root]
    while let number = waiting.popLast() {
      for entry in (directories[number] ?? [:]).values where reachable.insert(entry.number).inserted {
        if entry.isDirectory { waiting.append(entry.number) }
      }
    }
    directories = directories.filter { reachable.contains($0.key) }
    durableDirectories = directories
    inodes = inodes.filter { reachable.contains($0.key) }
    // The name of a file that was never written to any sector survives, and the file is empty.
    for entries in directories.values {
      for entry in entries.values where !entry.isDirectory && inodes[entry.number] == nil {
        inodes[entry.number] = Inode()
      }
    }
  }
}

extension CrashDisk.Inode {
  /// The sectors whose bytes may be lost with the power, in ascending order.
  var unsynced: [Int] { dirty.union(doomed).sorted() }

  /// Returns the synced bytes with some of the sectors written since, and with a size between the two.
  func withRandomSectors(keepOneIn chance: Int, _ random: inout SeededRandom) -> SectorContent {
    var content = durable
    switch random.below(3) {
    case 0: break
    case 1: content.resize(to: current.size)
    default:
      let low = min(durable.size, current.size)
      let high = max(durable.size, current.size)
      let size = (low + random.below(high - low + 1)) / SectorContent.sectorSize * SectorContent.sectorSize
      content.resize(to: min(max(low, size), high))
    }
    for sector in unsynced {
      if random.oneIn(chance) {
        content.setSector(sector, current.sector(sector))
      } else if let earlier = intermediate[sector], random.oneIn(2) {
        content.setSector(sector, earlier)
      }
    }
    return content
  }
}
