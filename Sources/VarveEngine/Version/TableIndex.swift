/// The location of each table of a database, by its number.
///
/// The numbers are distributed over a fixed number of dictionaries. A copy of the index is cheap, and changing one of
/// two copies costs only the dictionaries concerned: readers keep copies of the state while edits are applied.
///
/// # Concurrency
/// A value; safe from any thread.
struct TableIndex: Sendable {
  struct Location: Sendable {
    let family: FamilyID
    let level: Int
    let table: TableMetadata
  }

  /// The number of dictionaries. With 100,000 tables each dictionary has about 200.
  private static let shardCount: UInt64 = 512

  private var shards: [[FileNumber: Location]] = []
  /// The number of tables.
  private(set) var count = 0

  init() {}

  private static func shard(_ number: FileNumber) -> Int { Int(number.value % shardCount) }

  subscript(number: FileNumber) -> Location? {
    get { shards.isEmpty ? nil : shards[Self.shard(number)][number] }
    set {
      // Most databases of tests have no table, so the dictionaries are created when they are first needed.
      if shards.isEmpty { shards = Array(repeating: [:], count: Int(Self.shardCount)) }
      let old: Location?
      if let newValue {
        old = shards[Self.shard(number)].updateValue(newValue, forKey: number)
      } else {
        old = shards[Self.shard(number)].removeValue(forKey: number)
      }
      count += (newValue == nil ? 0 : 1) - (old == nil ? 0 : 1)
    }
  }

  /// All tables, unordered.
  var locations: some Sequence<Location> { shards.lazy.flatMap(\.values) }

  /// Returns the tables of some families, by family and level, unordered.
  func tablesByFamily(where isIncluded: (FamilyID) -> Bool) -> [FamilyID: [[TableMetadata]]] {
    var families: [FamilyID: [[TableMetadata]]] = [:]
    for location in locations where isIncluded(location.family) {
      families[location.family, default: Array(repeating: [], count: Limits.levelCount)][location.level].append(
        location.table)
    }
    return families
  }
}
