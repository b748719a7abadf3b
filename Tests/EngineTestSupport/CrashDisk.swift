import VarveEngine

/// The state of a simulated disk: for each file and each directory what programs see, and what would be left if the
/// power were lost now.
///
/// A value type: a copy costs a few references, and shares all pages and tables until one of them changes. This makes
/// an image at every operation of a run affordable.
///
/// # Invariants
/// 1. `current` and `durable` of a file differ only in the sectors of `dirty` and `doomed`, and in size.
/// 2. `directories` is `durableDirectories` with the `pending` changes applied in order.
struct CrashDisk: Sendable {
  struct Inode: Sendable {
    var current = SectorContent()
    var durable = SectorContent()
    /// Sectors written since the last sync.
    var dirty: Set<Int> = []
    /// Sectors that a failed sync dropped: programs see them, and no later sync makes them durable.
    var doomed: Set<Int> = []
    /// Earlier contents of some dirty sectors, from between the last sync and now: the system may have written those.
    var intermediate: [Int: [UInt8]] = [:]

    /// Makes the sectors that contain the first `size` bytes durable, and no others.
    mutating func syncFirst(_ size: Int) {
      if durable.size < size { durable.resize(to: size) }
      let count = (size + SectorContent.sectorSize - 1) / SectorContent.sectorSize
      for sector in dirty where sector < count && !doomed.contains(sector) {
        durable.setSector(sector, current.sector(sector))
        intermediate[sector] = nil
      }
      dirty = dirty.filter { $0 >= count }
    }
  }

  struct Entry: Hashable, Sendable {
    let number: Int
    let isDirectory: Bool
  }

  /// One operation on names, which survives a crash completely or not at all.
  struct Change: Sendable {
    struct Location: Hashable, Sendable, Comparable {
      let directory: Int
      let name: String
      static func < (left: Location, right: Location) -> Bool {
        (left.directory, left.name) < (right.directory, right.name)
      }
    }
    var steps: [(location: Location, entry: Entry?)]

    func touches(_ directory: Int) -> Bool { steps.contains { $0.location.directory == directory } }
    func shares(_ locations: Set<Location>) -> Bool { steps.contains { locations.contains($0.location) } }
  }

  static let root = 0

  /// Whether files may be mapped. If false, everything is written by calls.
  var mapsFiles = true
  var inodes: [Int: Inode] = [:]
  var directories: [Int: [String: Entry]] = [root: [:]]
  var durableDirectories: [Int: [String: Entry]] = [root: [:]]
  var pending: [Change] = []
  private(set) var numberNext = 1
  private var sweepThreshold = 64

  mutating func makeNumber() -> Int {
    defer { numberNext += 1 }
    return numberNext
  }

  mutating func leaveOutNumbers(before number: Int) { numberNext = max(numberNext, number) }
}

// MARK: Names

extension CrashDisk {
  /// Returns the directory that a path ends in, and the last component of the path.
  func location(_ path: String) throws(EngineError) -> Change.Location {
    let components = path.split(separator: "/").filter { $0 != "." }
    guard let last = components.last else { return Change.Location(directory: Self.root, name: "") }
    var directory = Self.root
    for component in components.dropLast() {
      guard let entry = directories[directory]?[String(component)] else {
        throw EngineError(.notFound, "the directory above does not exist", file: path)
      }
      guard entry.isDirectory else { throw EngineError(.inputOutput, "\(component) is not a directory", file: path) }
      directory = entry.number
    }
    return Change.Location(directory: directory, name: String(last))
  }

  func entry(_ path: String) throws(EngineError) -> Entry? {
    let location = try location(path)
    if location.name.isEmpty { return Entry(number: Self.root, isDirectory: true) }
    return directories[location.directory]?[location.name]
  }

  func existingEntry(_ path: String) throws(EngineError) -> Entry {
    guard let entry = try entry(path) else { throw EngineError(.notFound, "nothing is at this path", file: path) }
    return entry
  }

  func file(_ path: String) throws(EngineError) -> Int {
    let entry = try existingEntry(path)
    guard !entry.isDirectory else { throw EngineError(.inputOutput, "the path is a directory", file: path) }
    return entry.number
  }

  func directory(_ path: String) throws(EngineError) -> Int {
    let entry = try existingEntry(path)
    guard entry.isDirectory else { throw EngineError(.inputOutput, "the path is not a directory", file: path) }
    return entry.number
  }

  func freeLocation(_ path: String) throws(EngineError) -> Change.Location {
    let location = try location(path)
    guard !location.name.isEmpty, directories[location.directory]?[location.name] == nil else {
      throw EngineError(.alreadyExists, "the path is taken", file: path)
    }
    return location
  }

  func renameChange(_ path: String, to newPath: String) throws(EngineError) -> Change {
    let moved = try existingEntry(path)
    let source = try location(path)
    let target = try location(newPath)
    guard !source.name.isEmpty, !target.name.isEmpty else {
      throw EngineError(.inputOutput, "the root has no name to change", file: path)
    }
    if source == target { return Change(steps: []) }
    if let old = directories[target.directory]?[target.name], old.isDirectory || moved.isDirectory {
      throw EngineError(.alreadyExists, "the new path is taken by a directory", file: newPath)
    }
    return Change(steps: [(source, nil), (target, moved)])
  }

  /// Applies a change so that programs see it at once. It is not durable yet.
  mutating func apply(_ change: Change) {
    guard !change.steps.isEmpty else { return }
    Self.apply(change, to: &directories)
    pending.append(change)
  }

  static func apply(_ change: Change, to directories: inout [Int: [String: Entry]]) {
    for step in change.steps {
      directories[step.location.directory, default: [:]][step.location.name] = step.entry
      if let entry = step.entry, entry.isDirectory, directories[entry.number] == nil {
        directories[entry.number] = [:]
      }
    }
  }

  /// Makes the entries of a directory durable: the changes that touch it, and the earlier changes that share a name
  /// with those.
  mutating func syncDirectory(_ directory: Int) {
    var locations: Set<Change.Location> = []
    var isKept = [Bool](repeating: false, count: pending.count)
    for index in pending.indices.reversed() {
      guard pending[index].touches(directory) || pending[index].shares(locations) else { continue }
      isKept[index] = true
      locations.formUnion(pending[index].steps.map(\.location))
    }
    for index in pending.indices where isKept[index] { Self.apply(pending[index], to: &durableDirectories) }
    pending = pending.indices.filter { !isKept[$0] }.map { pending[$0] }
  }

  /// Removes the files that no name, no name that may survive, and no entry of `open` refers to.
  mutating func sweep(open: Set<Int>) {
    guard inodes.count > sweepThreshold else { return }
    var live = open
    for table in [directories, durableDirectories] {
      for entries in table.values { live.formUnion(entries.values.map(\.number)) }
    }
    for change in pending { live.formUnion(change.steps.compactMap { $0.entry?.number }) }
    for number in Array(inodes.keys) where !live.contains(number) { inodes[number] = nil }
    sweepThreshold = max(64, inodes.count * 2)
  }
}

// MARK: Bytes

extension CrashDisk {
  /// Writes bytes; no sync has covered them yet.
  mutating func write(_ number: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int, _ random: inout SeededRandom) {
    guard bytes.count > 0 else { return }
    let oldSize = inodes[number, default: Inode()].current.size
    let first = min(offset, oldSize) / SectorContent.sectorSize
    let last = (offset + bytes.count - 1) / SectorContent.sectorSize
    markDirty(number, first...last, &random)
    unsafe inodes[number, default: Inode()].current.write(bytes, at: offset)
  }

  mutating func truncate(_ number: Int, to size: Int, _ random: inout SeededRandom) {
    let oldSize = inodes[number, default: Inode()].current.size
    guard size != oldSize else { return }
    let first = min(size, oldSize) / SectorContent.sectorSize
    let last = (max(size, oldSize) - 1) / SectorContent.sectorSize
    if first <= last { markDirty(number, first...last, &random) }
    inodes[number, default: Inode()].current.resize(to: size)
  }

  private mutating func markDirty(_ number: Int, _ sectors: ClosedRange<Int>, _ random: inout SeededRandom) {
    for sector in sectors {
      let isNew = inodes[number, default: Inode()].dirty.insert(sector).inserted
      inodes[number, default: Inode()].doomed.remove(sector)
      if !isNew && random.oneIn(4), let content = inodes[number]?.current {
        inodes[number, default: Inode()].intermediate[sector] = content.sector(sector)
      }
    }
  }

  /// Makes a file durable, or only its first bytes if `first` is set.
  mutating func sync(_ number: Int, first: Int? = nil) {
    guard var inode = inodes[number] else { return }
    inodes[number] = nil
    defer { inodes[number] = inode }
    if let first, first < inode.current.size { return inode.syncFirst(first) }
    let old = inode.durable
    inode.durable = inode.current
    for sector in inode.doomed { inode.durable.setSector(sector, old.sector(sector)) }
    inode.dirty = []
    inode.intermediate = [:]
  }

  /// Simulates a failed sync: the system drops the pages that it could not write, and marks them clean.
  mutating func failSync(_ number: Int) {
    guard var inode = inodes[number] else { return }
    inodes[number] = nil
    inode.doomed.formUnion(inode.dirty)
    inode.dirty = []
    inode.intermediate = [:]
    inodes[number] = inode
  }
}
