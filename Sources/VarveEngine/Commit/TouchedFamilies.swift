/// The families that a batch names, each with how much the batch has for it.
///
/// Nearly every batch names one or two families: those are found by looking. A batch over thousands of them
/// gets a dictionary.
///
/// Belongs to the commit leader.
struct TouchedFamilies {
  struct Part {
    let family: FamilyState
    /// All entries, range deletes included.
    var entryCount = 0
    var need = MemTableNeed()

    func hasRoom(_ lead: borrowing CommitLead) -> Bool { family.active(lead).hasRoom(for: need) }

    /// Whether the memtable takes over the range tombstones that were put together before.
    func adopts(_ lead: borrowing CommitLead) -> Bool {
      need.prepared != nil && family.active(lead).rangeTombstones.isEmpty
    }
  }

  private(set) var parts: [Part] = []
  private var hasVolatile = false
  /// Where a family is, once there are many.
  private var places: [FamilyID: Int] = [:]

  private static let searchedMaximum = 8

  /// How many entries the batch has for volatile families.
  @inline(__always)
  var volatileEntryCount: Int { hasVolatile ? countVolatile() : 0 }

  @inline(never)
  private func countVolatile() -> Int { parts.reduce(0) { $0 + ($1.family.isVolatile ? $1.entryCount : 0) } }

  /// The first part that does not fit into its family's memtable.
  func partWithoutRoom(_ lead: borrowing CommitLead) -> Part? {
    // By index: a part that is iterated over is copied, with all that it refers to.
    for index in parts.indices where !parts[index].hasRoom(lead) { return parts[index] }
    return nil
  }

  mutating func removeAll() {
    hasVolatile = false
    hasEdits = false
    parts.removeAll(keepingCapacity: parts.count <= 64)
    if !places.isEmpty { places = [:] }
  }

  /// The place of a family that was added; nil if it wasn't.
  @inline(__always)
  func place(of id: FamilyID) -> Int? {
    if let last = parts.last, last.family.id == id { return parts.count &- 1 }
    return search(id)
  }

  /// The family of an entry of the batch.
  @inline(__always)
  func family(of entry: BatchReader.Entry) -> FamilyState {
    guard let place = place(of: entry.family) else {
      // The entry is in the log by now: to go on without it would lose it with the next flush.
      fatalError("a commit did not look up column family \(entry.family) of its batch: report this as a bug")
    }
    return parts[place].family
  }

  @inline(never)
  private func search(_ id: FamilyID) -> Int? {
    if parts.count <= Self.searchedMaximum { return parts.firstIndex { $0.family.id == id } }
    return places[id]
  }

  /// Adds a family that is not there yet, and returns its place.
  mutating func add(_ family: FamilyState) -> Int {
    parts.append(Part(family: family))
    if family.isVolatile { hasVolatile = true }
    if parts.count == Self.searchedMaximum + 1 {
      for (place, part) in parts.enumerated() { places[part.family.id] = place }
    } else if parts.count > Self.searchedMaximum {
      places[family.id] = parts.count - 1
    }
    return parts.count - 1
  }

  /// Whether a batch has so many range deletes for one family that readers are to see them as one edit.
  private(set) var hasEdits = false

  /// Notes an entry for the family at a place.
  @inline(__always)
  mutating func count(at place: Int, bytes: Int) {
    parts[place].entryCount &+= 1
    parts[place].need.entryCount &+= 1
    parts[place].need.byteCount &+= bytes
  }

  /// Notes a range delete, which takes no room in the memtable's arena.
  mutating func countTombstone(at place: Int, bytes: Int) {
    parts[place].entryCount += 1
    parts[place].need.tombstoneCount += 1
    parts[place].need.tombstoneKeyBytes += bytes
    if parts[place].need.tombstoneCount > 1 { hasEdits = true }
  }

  /// Gives each family what was put together for it.
  mutating func take(_ prepared: PreparedTombstones) {
    for place in parts.indices { parts[place].need.prepared = prepared.part(of: parts[place].family.id) }
  }
}
