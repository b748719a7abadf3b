import EngineTestSupport
import VarveEngine

/// The configuration that must not change any answer: the options of an engine, and the way in which its background
/// work runs.
struct EngineSetting: Hashable, Sendable, Codable {
  /// `nil` means the default, here and for the options below.
  var memoryBudget: Int?
  var memtableSize: Int?
  var cacheSize: Int?
  var logSegmentSize: Int?
  var openTableCount: Int?
  var backgroundThreads: Int?
  var blockSize = 4 << 10
  var bloomBitsPerKey = 10
  var compression = "lz4"
  var lastLevelCompression: String?
  var durability = "process"
  var usesMapping = true
  /// One background job runs before one operation in so many; if 0, jobs run only when the engine waits.
  var stepInterval = 1
  /// The seed of the order of the background work.
  var seed: UInt64 = 1
  /// Whether each reopening changes block size, compression and filter.
  var changesAtReopen = false

  /// Returns the options after `count` reopenings.
  func options(reopened count: Int) -> EngineOptions {
    var options = EngineOptions()
    options.memoryBudget = memoryBudget
    options.memtableSize = memtableSize
    options.cacheSize = cacheSize
    options.logSegmentSize = logSegmentSize
    options.openTableCount = openTableCount
    options.backgroundThreads = backgroundThreads
    options.blockSize = blockSize
    options.bloomBitsPerKey = bloomBitsPerKey
    options.compression = CompressionKind(rawValue: compression) ?? .lz4
    options.lastLevelCompression = lastLevelCompression.flatMap { CompressionKind(rawValue: $0) }
    switch durability {
    case "power": options.durability = .power
    case "powerEvery": options.durability = .powerEvery(nanoseconds: 3_000_000)
    case "none": options.durability = .none
    default: options.durability = .process
    }
    options.mergeOperators = [ChainOperator()]
    // A range tombstone that a cursor lets the engine write takes a sequence number at a time that is not an answer
    // of the operation sequence.
    options.deadRunMinimum = 0
    options.defaultFamilyOptions.mergeOperator = Self.mergeOperator(familySlot: 0)
    if changesAtReopen, count > 0 {
      options.blockSize = [1 << 10, 4 << 10, 16 << 10][count % 3]
      options.compression = CompressionKind.allCases[count % 3]
      options.bloomBitsPerKey = [0, 10, 5][count % 3]
    }
    return options
  }
}

extension EngineSetting {
  /// Returns the merge operator of a family. Operators may not vary because they determine answers. One family has
  /// none.
  static func mergeOperator(familySlot: Int) -> String? {
    [MergeRule.chain.rawValue, "varve.append", MergeRule.chain.rawValue, nil][familySlot]
  }

  /// All settings: the default, then every other value of each option alone, then mixtures.
  static let all: [EngineSetting] = {
    var settings = [EngineSetting()] + single
    var random = SeededRandom(seed: 60)
    while settings.count < 60 {
      let setting = mixture(&random)
      if !settings.contains(setting) { settings.append(setting) }
    }
    return settings
  }()

  private static var single: [EngineSetting] {
    func vary<V>(_ path: WritableKeyPath<EngineSetting, V>, _ values: [V]) -> [EngineSetting] {
      values.map { value in
        var setting = EngineSetting()
        setting[keyPath: path] = value
        return setting
      }
    }
    return vary(\.memoryBudget, [2 << 20, 8 << 20]) + vary(\.memtableSize, [64 << 10, 100_000, 1 << 20])
      + vary(\.cacheSize, [0, 64 << 10]) + vary(\.logSegmentSize, [64 << 10, 1 << 20])
      + vary(\.openTableCount, [16]) + vary(\.backgroundThreads, [1, 3, 8])
      + vary(\.blockSize, [1 << 10, 2_000, 64 << 10]) + vary(\.bloomBitsPerKey, [0, 3, 20])
      + vary(\.compression, ["none", "zstd"]) + vary(\.lastLevelCompression, ["zstd", "none"])
      + vary(\.durability, ["power", "powerEvery", "none"]) + vary(\.usesMapping, [false])
      + vary(\.stepInterval, [0, 7]) + vary(\.seed, [2]) + vary(\.changesAtReopen, [true])
  }

  /// Returns a setting with small limits, so that flushes and compactions are frequent.
  private static func mixture(_ random: inout SeededRandom) -> EngineSetting {
    func draw<V>(_ values: [V]) -> V { values[random.below(values.count)] }
    var setting = EngineSetting()
    if random.oneIn(4) {
      setting.memoryBudget = draw([1 << 20, 2 << 20, 4 << 20])
    } else {
      setting.memtableSize = draw([64 << 10, 64 << 10, 100_000, 256 << 10])
      setting.cacheSize = draw([0, 32 << 10, 256 << 10, nil])
      setting.logSegmentSize = draw([64 << 10, 128 << 10, 512 << 10])
    }
    setting.openTableCount = draw([16, 16, nil])
    setting.backgroundThreads = draw([1, 2, 4])
    setting.blockSize = draw([1 << 10, 2_000, 4 << 10, 16 << 10])
    setting.bloomBitsPerKey = draw([0, 4, 10])
    setting.compression = draw(["none", "lz4", "zstd"])
    setting.lastLevelCompression = draw([nil, "none", "lz4", "zstd"])
    setting.durability = draw(["process", "power", "powerEvery", "none"])
    setting.usesMapping = random.oneIn(2)
    setting.stepInterval = draw([0, 1, 3, 10])
    setting.seed = UInt64(random.below(1_000))
    setting.changesAtReopen = random.oneIn(3)
    return setting
  }
}
