import EngineTestSupport
import Testing
import VarveTestSupport

/// The numbers of steps of all model suites.
///
/// Each suite checks that it made this many, and a test checks that their sum is half a million in CI, which runs the
/// optimized build.
enum ModelPlan {
  /// The divisor of the numbers without optimization, where a step takes ten times as long.
  #if DEBUG
    private static let divisor = 20
  #else
    private static let divisor = 1
  #endif

  /// Whether there are enough steps for the kinds of steps to be a fair sample.
  static var isWhole: Bool { TestScale.isWhole && divisor == 1 }

  // MARK: Rows

  static let rowSteps = TestScale.atMost(3_000)
  static let rowRuns = 6

  // MARK: Extensions

  static let extensionSteps = TestScale.atMost(10_000)

  static func extensionRuns(_ kind: StorageKind) -> Int {
    switch kind {
    case .disk: max(1, 4 / divisor)
    case .memory: max(1, 12 / divisor)
    case .toy: max(1, 24 / divisor)
    }
  }

  static let lateExtensionRuns = max(1, 8 / divisor)

  // MARK: Indexes

  static let indexSteps = TestScale.atMost(1_000)

  static func indexRuns(_ kind: StorageKind) -> Int {
    switch kind {
    case .disk: max(1, 4 / divisor)
    case .memory: max(1, 24 / divisor)
    case .toy: max(1, 12 / divisor)
    }
  }

  /// A thousand queries each on two storages: together with the steps of the indexes, 60,000.
  static let queryRuns = max(1, 10 / divisor)

  // MARK: Relationships

  static let graphSteps = TestScale.atMost(2_000)

  static func graphRuns(_ kind: StorageKind) -> Int {
    switch kind {
    case .disk: max(1, 3 / divisor)
    case .memory: max(1, 12 / divisor)
    case .toy: max(1, 8 / divisor)
    }
  }

  // MARK: Seeds

  /// The seeds of `runCount` runs at scale 1.
  static func seeds(_ runCount: Int) -> ClosedRange<UInt64> {
    TestScale.seed.map { $0...$0 } ?? 1...UInt64(TestScale.count(runCount))
  }

  /// The number of all steps at scale 1.
  static var steps: Int {
    let runs = StorageKind.allCases.reduce(lateExtensionRuns) { $0 + extensionRuns($1) }
    // The storages are three, and two that are late or fail.
    return rowSteps * rowRuns * (StorageKind.allCases.count + 2) + extensionSteps * runs
  }
}

struct ModelPlanTests {
  @Test func `the model suites make half a million steps in optimized builds`() {
    #expect(!ModelPlan.isWhole || ModelPlan.steps >= 500_000, "\(ModelPlan.steps) steps")
  }
}
