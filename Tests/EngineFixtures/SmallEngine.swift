import VarveEngine

/// Options with which a few thousand small entries are enough for tables, segments and compactions.
enum SmallEngine {
  static func options(memtableSize: Int = 64 << 10) -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = memtableSize
    options.cacheSize = 4 << 20
    options.logSegmentSize = 256 << 10
    return options
  }
}
