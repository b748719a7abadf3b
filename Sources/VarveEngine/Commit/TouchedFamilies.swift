/// The families that a batch names, each with the size of the batch's entries for it.
///
/// Nearly every batch names one or two families, which are found by a linear search. A batch over many families gets a
/// dictionary.
///
/// Belongs to the commit leader.
struct TouchedFamilies {
  struct Part {
    let family: FamilyState
    /// The number of entries, including range deletes.
    var entryCount = 0
    var need = MemTableRequirement()

    func hasRoom(_ lead: borrowing CommitLead) -> Bool { family.active(lead).hasRoom(for: need) }

    /// Returns whether the memtable adopts the prepared range tombstones.
    func adopts(_ lead: borrowing CommitLead) -> Bool {
      need.prepared != nil && family.active(lead).rangeTombstones.isEmpty
    }
  }

  private(set) var parts: [Part] = []
  private var hasVolatile = false
  /// Index in `parts` by family, once there are more than `searchedMaximum`.
  private var locations: [FamilyID: Int] = [:]

  private static let searchedMaximum = 8

  /// The number of entries that the batch has for volatile families.
  @inline(__always)
  var volatileEntryCount: Int { hasVolatile ? countVolatile() : 0 }

  @inline(never)
  private func countVolatile() -> Int { parts.reduce(0) { $0 + ($1.family.isVolatile ? $1.entryCount : 0) } }

  /// Returns the first part that does not fit into its family's memtable.
  func partWithoutRoom(_ lead: borrowing CommitLead) -> Part? {
    // The parts are iterated by index: an iterator would copy the part and retain all that it references.
    for index in parts.indices where !parts[index].hasRoom(lead) { return parts[index] }
    return nil
  }

  mutating func removeAll() {
    hasVolatile = false
    hasEdits = false
    parts.removeAll(keepingCapacity: parts.count <= 64)
    if !locations.isEmpty { locations = [:] }
  }

  /// Returns the index of a family that was added, or `nil` if it wasn't.
  @inline(__always)
  func location(of id: FamilyID) -> Int? {
    if let last = parts.last, last.family.id == id { return parts.count &- 1 }
    return search(id)
  }

  /// Returns the family of an entry of the batch.
  @inline(__always)
  func family(of entry: BatchReader.Entry) -> FamilyState {
    guard let location = location(of: entry.family) else {
      // The entry is in the log by now. Continuing without it would lose it with the next flush.
      fatalError("a commit did not look up column family \(entry.family) of its batch: report this as a bug")
    }
    return parts[location].family
  }

  @inline(never)
  private func search(_ id: FamilyID) -> Int? {
    if parts.count <= Self.searchedMaximum { return parts.firstIndex { $0.family.id == id } }
    return locations[id]
  }

  /// Adds a family that is not in the list yet, and returns its index.
  mutating func add(_ family: FamilyState) -> Int {
    parts.append(Part(family: family))
    if family.isVolatile { hasVolatile = true }
    if parts.count == Self.searchedMaximum + 1 {
      for (location, part) in parts.enumerated() { locations[part.family.id] = location }
    } else if parts.count > Self.searchedMaximum {
      locations[family.id] = parts.count - 1
    }
    return parts.count - 1
  }

  /// A Boolean value that indicates whether the batch has several range deletes for one family, which readers must see
  /// as one edit.
  private(set) var hasEdits = false

  /// Counts an entry for the family at an index.
  @inline(__always)
  mutating func count(at location: Int, bytes: Int) {
    parts[location].entryCount &+= 1
    parts[location].need.entryCount &+= 1
    parts[location].need.byteCount &+= bytes
  }

  /// Counts a range delete, which takes no room in the memtable's arena.
  mutating func countTombstone(at location: Int, bytes: Int) {
    parts[location].entryCount += 1
    parts[location].need.tombstoneCount += 1
    parts[location].need.tombstoneKeyBytes += bytes
    if parts[location].need.tombstoneCount > 1 { hasEdits = true }
  }

  /// Passes each family its prepared tombstones.
  mutating func take(_ prepared: PreparedTombstones) {
    for location in parts.indices { parts[location].need.prepared = prepared.part(of: parts[location].family.id) }
  }
}
