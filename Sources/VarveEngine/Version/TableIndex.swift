/// Where each table of a database is, by its number.
///
/// The numbers are spread over a fixed number of dictionaries. A copy of the index is cheap, and a change of one of
/// two copies costs the dictionaries that it touches and not the whole: readers of the state hold copies while
/// edits come.
///
/// # Concurrency
/// A value; safe from any thread.
struct TableIndex: Sendable {
  struct Place: Sendable {
    let family: FamilyID
    let level: Int
    let table: TableMetadata
  }

  /// With 100,000 tables each dictionary has about 200.
  private static let shardCount: UInt64 = 512

  private var shards: [[FileNumber: Place]] = []
  /// How many tables there are.
  private(set) var count = 0

  init() {}

  private static func shard(_ number: FileNumber) -> Int { Int(number.value % shardCount) }

  subscript(number: FileNumber) -> Place? {
    get { shards.isEmpty ? nil : shards[Self.shard(number)][number] }
    set {
      // Most databases of tests have no table.
      if shards.isEmpty { shards = Array(repeating: [:], count: Int(Self.shardCount)) }
      let old: Place?
      if let newValue {
        old = shards[Self.shard(number)].updateValue(newValue, forKey: number)
      } else {
        old = shards[Self.shard(number)].removeValue(forKey: number)
      }
      count += (newValue == nil ? 0 : 1) - (old == nil ? 0 : 1)
    }
  }

  /// All tables, in no order.
  var places: some Sequence<Place> { shards.lazy.flatMap(\.values) }

  /// The tables of some families, by family and level, in no order.
  func tablesByFamily(where isIncluded: (FamilyID) -> Bool) -> [FamilyID: [[TableMetadata]]] {
    var families: [FamilyID: [[TableMetadata]]] = [:]
    for place in places where isIncluded(place.family) {
      families[place.family, default: Array(repeating: [], count: Limits.levelCount)][place.level].append(place.table)
    }
    return families
  }
}
