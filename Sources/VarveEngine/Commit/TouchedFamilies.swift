/// The families that a batch names, each with how much the batch has for it.
///
/// Nearly every batch names one or two families: those are found by looking. A batch over thousands of them
/// gets a dictionary.
///
/// The commit leader's.
struct TouchedFamilies {
  struct Part {
    let family: FamilyState
    var entryCount = 0
    var byteCount = 0

    var hasRoom: Bool { family.active.hasRoom(entryCount: entryCount, byteCount: byteCount) }
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

  mutating func removeAll() {
    hasVolatile = false
    parts.removeAll(keepingCapacity: parts.count <= 64)
    if !places.isEmpty { places = [:] }
  }

  /// The place of a family that was added; nil if it wasn't.
  @inline(__always)
  func place(of id: FamilyID) -> Int? {
    if let last = parts.last, last.family.id == id { return parts.count &- 1 }
    return search(id)
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

  /// Notes an entry for the family at a place.
  @inline(__always)
  mutating func count(at place: Int, bytes: Int) {
    parts[place].entryCount &+= 1
    parts[place].byteCount &+= bytes
  }
}
