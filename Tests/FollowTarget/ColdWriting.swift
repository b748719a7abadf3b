import VarveEngine

/// The writer of a `ColdFamily`. It continues after the last batch that it finds.
struct ColdWriting {
  let engine: Engine
  let cold: ColumnFamily

  /// Memtables of 2 MiB bound the log to 16 MiB, or some 700 batches, and hold the cold family's rows of 20,000.
  static var options: EngineOptions {
    var options = EngineOptions()
    options.memoryBudget = 32 << 20
    options.memtableSize = 2 << 20
    return options
  }

  init(path: String) throws {
    engine = try Engine.open(at: path, options: Self.options)
    cold = try engine.openFamily(ColdFamily.name)
  }

  /// Commits batches up to the last number, and acknowledges each.
  func run(to last: UInt64) throws {
    var number = try engine.get(Numbers.head).map { Numbers.number($0) + 1 } ?? 1
    while number <= last {
      var batch = WriteBatch()
      try batch.put(Numbers.head, Numbers.key(number))
      try batch.put(ColdFamily.key(number), ColdFamily.value(number))
      try batch.put(ColdFamily.key(number), Numbers.key(number), in: cold)
      if number % ColdFamily.onceInterval == 0 {
        try batch.put(ColdFamily.onceKey(number), Numbers.key(number), in: cold)
      }
      try engine.write(batch, durability: number % 64 == 0 ? .power : .process)
      FollowTarget.acknowledge(number)
      number += 1
    }
    try engine.close()
  }
}
