import EngineTestSupport
import Foundation
import Testing

/// Tests that a sequence of operations gives the same history with any options.
///
///     VARVE_TEST_SCALE=500 ./tools/test --filter MetamorphicTests     # 20,000 sequences under 60 settings
///     VARVE_TEST_SEED=17 ./tools/test --filter MetamorphicTests       # the sequence of one seed
///     VARVE_TEST_SEQUENCE=file ./tools/test --filter MetamorphicTests # a case that was printed
///
/// If two settings disagree, the sequence is made as small as possible, and printed with both settings as the text of
/// a case. Such cases are kept in `Sequences`, and always run.
struct MetamorphicTests {
  private static let sequenceCount = 40
  /// The number of parts that run concurrently.
  private static let partCount = 2

  @Test(arguments: 0..<partCount)
  func `one sequence of operations gives one history under all settings`(part: Int) throws {
    let settings = EngineSetting.all
    let chosen = Self.variable("VARVE_TEST_SEED").flatMap { UInt64($0) }
    let count = UInt64(TestScale.count(Self.sequenceCount))
    let seeds = chosen.map { part == 0 ? [$0] : [] } ?? (1...count).filter { Int($0) % Self.partCount == part }
    var installCount = 0
    var outcomes: [HeldTransaction.Outcome: Int] = [:]
    var kinds = Array(repeating: 0, count: SequenceOperation.Kind.allCases.count)
    let clock = ContinuousClock()
    let start = clock.now
    for seed in seeds {
      let operations = SequenceSource.sequence(seed: seed)
      for operation in operations { kinds[operation.kind.rawValue] += 1 }
      guard let found = Self.firstDisagreement(operations, settings, &installCount, &outcomes) else { continue }
      Issue.record("seed \(seed): \(try Self.report(found))")
      return
    }
    let total = kinds.reduce(0, +)
    let elapsed = start.duration(to: clock.now) / .seconds(1)
    print(
      "metamorphic, part \(part): \(seeds.count) sequences under \(settings.count) settings,",
      "\(total * settings.count) operations in \(Int(elapsed)) s, \(Int(Double(total * settings.count) / elapsed)) a second,",
      "content compared around \(installCount) changes of tables, transactions: \(outcomes)"
    )
    guard chosen == nil, TestScale.isWhole else { return }
    #expect(installCount >= 1_000)
    for outcome in [HeldTransaction.Outcome.committed, .conflict] {
      #expect(outcomes[outcome] ?? 0 >= outcome.leastCount, "\(outcome)")
    }
    for kind in SequenceOperation.Kind.allCases {
      #expect(kinds[kind.rawValue] * 100 >= total, "\(kind): \(kinds[kind.rawValue]) of \(total)")
    }
  }

  @Test func `there are at least 50 different settings, in which the options vary`() {
    let settings = EngineSetting.all
    #expect(settings.count >= 50)
    #expect(Set(settings).count == settings.count)
    #expect(Set(settings.map(\.usesMapping)) == [true, false])
    #expect(Set(settings.map(\.durability)) == ["process", "power", "powerEvery", "none"])
    #expect(Set(settings.map(\.compression)) == ["none", "lz4", "zstd"])
    #expect(settings.contains { $0.bloomBitsPerKey == 0 } && settings.contains { $0.cacheSize == 0 })
  }

  // MARK: - Cases

  @Test func `every kept sequence has one history`() throws {
    var files = try FileManager.default.contentsOfDirectory(at: Self.folder, includingPropertiesForKeys: nil)
      .filter { $0.pathExtension == "txt" }
    #expect(!files.isEmpty, "there are no cases in \(Self.folder.path)")
    if let file = Self.variable("VARVE_TEST_SEQUENCE") { files.append(URL(fileURLWithPath: file)) }
    for file in files {
      let kept = try SequenceCase(parsing: String(contentsOf: file, encoding: .utf8))
      let problem = kept.disagreement()
      #expect(problem == nil, "\(file.lastPathComponent): \(problem ?? "")")
    }
  }

  @Test func `a sequence printed as text is read as the same sequence`() throws {
    for seed in 1...UInt64(50) {
      let settings = EngineSetting.all
      let made = SequenceCase(
        left: settings[0], right: settings[Int(seed) % settings.count],
        operations: SequenceSource.sequence(seed: seed))
      #expect(try SequenceCase(parsing: try made.text()) == made, "seed \(seed)")
    }
  }

  // MARK: - The shrinker

  @Test func `a planted wrong answer is found, and shrunk to the operations that it needs`() throws {
    // After the second flush, the second setting forgets the result of a get of a key with a zero byte in the family
    // that always exists.
    let lie: SequenceRun.Lie = { operation, flushCount in
      guard case .get(0, let key, _) = operation else { return false }
      return flushCount >= 2 && key.bytes.contains(0)
    }
    var shownCount = 0
    for seed in 1...UInt64(800) where shownCount < 3 {
      let made = SequenceCase(
        left: EngineSetting.all[0], right: EngineSetting.all[3], operations: SequenceSource.sequence(seed: seed))
      guard made.disagreement(lie: lie) != nil else { continue }
      shownCount += 1
      let small = made.shrunk(lie: lie)
      let text = try small.text()
      // The remaining operations are a write that is found, two flushes and the get.
      #expect(small.operations.count == 4, "seed \(seed): \(text)")
      #expect(small.operations.filter { $0.kind == .flush }.count == 2, "seed \(seed)")
      #expect(small.operations.last?.kind == .get, "seed \(seed)")
      let again = try SequenceCase(parsing: text)
      #expect(again.disagreement(lie: lie) != nil, "seed \(seed): the text does not show it again")
      #expect(again.disagreement() == nil, "seed \(seed): without the lie both settings agree")
    }
    #expect(shownCount == 3, "the lie was shown by \(shownCount) of 800 sequences")
  }

  @Test func `a shrunk sequence no longer fails without any one of its operations`() throws {
    func fails(_ operations: [SequenceOperation]) -> Bool {
      operations.filter { $0.kind == .put }.count >= 3 && operations.contains { $0.kind == .scan }
    }
    let sequences = (1...UInt64(50)).lazy.map { SequenceSource.sequence(seed: $0) }
    let operations = try #require(sequences.first(where: fails))
    var shrinker = SequenceShrinker(fails: fails)
    let small = shrinker.shrink(operations)
    #expect(fails(small) && small.count == 4)
    for index in small.indices {
      var fewer = small
      fewer.remove(at: index)
      #expect(!fails(fewer))
    }
  }

  // MARK: - Helpers

  private static func firstDisagreement(
    _ operations: [SequenceOperation], _ settings: [EngineSetting], _ installCount: inout Int,
    _ outcomes: inout [HeldTransaction.Outcome: Int]
  ) -> SequenceCase? {
    let reference = SequenceRun.history(of: operations, settings[0])
    installCount += reference.installCount
    outcomes.merge(reference.outcomes, uniquingKeysWith: +)
    if reference.fault != nil { return SequenceCase(left: settings[0], right: settings[0], operations: operations) }
    for setting in settings.dropFirst() {
      let history = SequenceRun.history(of: operations, setting)
      installCount += history.installCount
      if history.fault != nil || history.firstDifference(from: reference) != nil {
        return SequenceCase(left: settings[0], right: setting, operations: operations)
      }
    }
    return nil
  }

  private static func report(_ found: SequenceCase) throws -> String {
    let small = found.shrunk()
    return """
      two settings disagree at \(small.disagreement() ?? "nothing, the second time: \(found.disagreement() ?? "nothing")").
      Put these lines into a file, and run VARVE_TEST_SEQUENCE=file ./tools/test --filter MetamorphicTests:
      \(try small.text())
      """
  }

  private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("Sequences")

  private static func variable(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }
}
