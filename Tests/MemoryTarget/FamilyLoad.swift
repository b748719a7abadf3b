import VarveEngine

/// Families with some rows each, which one process writes and another one opens again.
struct FamilyLoad {
  private let path: String
  private let rows: Int

  init(_ path: String, rows: Int) {
    self.path = path
    self.rows = rows
  }

  /// Writes the rows: into tables if `isFlushed` is true, or else into the log.
  func fill(_ count: Int, isFlushed: Bool) throws {
    let engine = try Engine.open(at: path)
    let families = try engine.createFamilies((0..<count).map { "family \($0)" })
    for row in 0..<rows {
      for family in families { try engine.put(key(row), value(row), in: family) }
    }
    if isFlushed { try engine.flush() }
    try engine.close()
  }

  /// Opens the families and reads a row of each. Returns the resident bytes of the process and the bytes that the
  /// engine counts, each before the opening, after it, and after the reads, and then the number of rows that were
  /// found.
  ///
  /// Before the opening, another database is opened, so that what any engine takes is not counted.
  func reopen() throws -> [UInt64] {
    let other = try Engine.open(at: path + ".empty")
    try other.put(key(0), value(0))
    let countedBefore = UInt64(other.statistics.memory.used)
    try other.close()
    let residentBefore = MemoryTarget.status("RssAnon:")
    let engine = try Engine.open(at: path)
    let residentOpened = MemoryTarget.status("RssAnon:")
    let countedOpened = UInt64(engine.statistics.memory.used)
    var found: UInt64 = 0
    for family in engine.families where try engine.get(key(rows / 2), in: family) == value(rows / 2) { found += 1 }
    let residentRead = MemoryTarget.status("RssAnon:")
    let countedRead = UInt64(engine.statistics.memory.used)
    try engine.close()
    return [residentBefore, residentOpened, residentRead, countedBefore, countedOpened, countedRead, found]
  }

  private func key(_ row: Int) -> [UInt8] { (0..<16).map { $0 < 8 ? UInt8(truncatingIfNeeded: row >> (8 * $0)) : 1 } }

  private func value(_ row: Int) -> [UInt8] { [UInt8](repeating: UInt8(truncatingIfNeeded: row), count: 100) }
}
