@testable import VarveEngine

/// The writer of a `ColdFamily`. It continues after the last batch that it finds.
struct ColdWriting {
  let engine: Engine
  let cold: ColumnFamily

  /// 1 MiB, so that the log is bounded by 8 MiB, or some 350 batches.
  static var options: EngineOptions {
    var options = EngineOptions()
    options.memoryBudget = 32 << 20
    options.memtableSize = 1 << 20
    return options
  }

  init(path: String) throws {
    engine = try Engine.open(at: path, options: Self.options)
    cold = try engine.families.first { $0.name == ColdFamily.name } ?? engine.createFamily(ColdFamily.name)
  }

  /// Commits batches up to the last number, and acknowledges each. Acknowledges at the end how many bytes were logged
  /// again.
  func run(to last: UInt64) throws {
    var number = try engine.get(Numbers.head, in: cold).map { Numbers.number($0) + 1 } ?? 1
    while number <= last {
      var batch = WriteBatch()
      for family in [engine.defaultFamily, cold] { try batch.put(Numbers.head, Numbers.key(number), in: family) }
      try batch.put(ColdFamily.key(number), ColdFamily.value(number))
      try batch.put(ColdFamily.key(number), Numbers.key(number), in: cold)
      if number % ColdFamily.onceInterval == 0 {
        try batch.put(ColdFamily.onceKey(number), Numbers.key(number), in: cold)
      }
      try engine.write(batch, durability: number % 64 == 0 ? .power : .process)
      FollowTarget.acknowledge(number)
      number += 1
    }
    FollowTarget.acknowledge(engine.core.pipeline.bytesLoggedAgain)
    try engine.close()
  }
}
