// swift-tools-version: 6.2
import PackageDescription

/// Settings of every Swift target. Each is a decision of the style guide
/// (`Sources/VarveEngine/VarveEngine.docc/Development/Style.md`).
let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  // SE-0458: every unsafe expression is marked, and an unmarked one does not compile.
  .strictMemorySafety(),
  .treatWarning("StrictMemorySafety", as: .error),
  // SE-0335: `any` is visible where it costs.
  .enableUpcomingFeature("ExistentialAny"),
  // SE-0409: an import is internal unless it says otherwise.
  .enableUpcomingFeature("InternalImportsByDefault"),
  // SE-0444: a member is visible only where its module is imported.
  .enableUpcomingFeature("MemberImportVisibility"),
  // SE-0461: a nonisolated async function runs where its caller runs.
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  // Properties that return a span which depends on `self`.
  .enableExperimentalFeature("Lifetimes"),
]

/// The engine alone gives up the dynamic exclusivity checks in release builds: they cost on each
/// access to a class property of the hot path. Bounds, overflow and preconditions stay.
let engineSettings: [SwiftSetting] = [
  .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
]

/// Of the suites of behaviour: not optimised, whatever the configuration. The optimiser would take as long for them as
/// for everything else, and only what is tested has to be as users get it.
let plainTestSettings: [SwiftSetting] = settings + [.unsafeFlags(["-Onone"])]

/// Of the suites whose steps are many: random, crash and cost tests. `tools/test` builds them a second time, beside a
/// plain release build of what they test, for the few of bad bytes alone.
let testSettings: [SwiftSetting] =
  Context.environment["VARVE_PLAIN_TESTS"] == nil ? settings : plainTestSettings

let package = Package(
  name: "varve",
  // The first that have `Mutex` and `Atomic`.
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Varve", targets: ["Varve"]),
    .library(name: "VarveEngine", targets: ["VarveEngine"]),
    .library(name: "VarveTesting", targets: ["VarveTesting"]),
    .executable(name: "varve", targets: ["VarveTool"]),
    .executable(name: "varve-quickstart", targets: ["QuickstartJob"]),
  ],
  dependencies: [
    // For the programs in tools/ alone.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    // For the object floor: the engine depends on no package.
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
  ],
  targets: [
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"]), .brew(["lz4"])]),
    .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]),
    .target(name: "CVarve"),
    .target(
      name: "VarveEngine",
      dependencies: ["CVarve", "CLZ4", "CZstd"],
      swiftSettings: settings + engineSettings
    ),
    .target(
      name: "Varve",
      dependencies: ["VarveEngine", "CVarve", .product(name: "Logging", package: "swift-log")],
      swiftSettings: settings
    ),
    // For the tests of programs that keep their objects in Varve.
    .target(name: "VarveTesting", dependencies: ["Varve", "VarveEngine"], swiftSettings: settings),
    .executableTarget(
      name: "VarveTool",
      dependencies: ["Varve", "VarveEngine", .product(name: "ArgumentParser", package: "swift-argument-parser")],
      path: "tools/varve",
      swiftSettings: settings
    ),
    .executableTarget(
      name: "QuickstartJob",
      dependencies: ["Varve", "VarveEngine", .product(name: "ArgumentParser", package: "swift-argument-parser")],
      path: "tools/quickstart-job",
      swiftSettings: settings
    ),
    .target(
      name: "EngineTestSupport",
      dependencies: ["VarveEngine"],
      path: "Tests/EngineTestSupport",
      swiftSettings: settings
    ),
    .testTarget(
      name: "VarveEngineTests",
      dependencies: ["VarveEngine", "EngineTestSupport", "CVarve", "varve-put-target"],
      swiftSettings: testSettings
    ),
    // The program whose puts are counted by what they cost, and what counts its allocations.
    .target(name: "AllocationCount", path: "Tests/AllocationCount"),
    .executableTarget(
      name: "varve-put-target",
      dependencies: ["VarveEngine", "AllocationCount"],
      path: "Tests/PutTarget",
      swiftSettings: settings
    ),
    // A second storage behind the door of the object floor, and what its suites have in common.
    .target(
      name: "VarveTestSupport",
      dependencies: ["Varve", "VarveEngine", "EngineTestSupport"],
      path: "Tests/VarveTestSupport",
      swiftSettings: settings
    ),
    .testTarget(
      name: "VarveTests",
      dependencies: ["Varve", "VarveEngine", "EngineTestSupport", "VarveTestSupport"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveModelTests",
      dependencies: ["Varve", "VarveEngine", "EngineTestSupport", "VarveTestSupport"],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "VarveEngineCrashTests",
      dependencies: [
        "VarveEngine", "EngineTestSupport", "varve-kill-target", "varve-memory-target", "varve-follow-target",
      ],
      swiftSettings: testSettings
    ),
    // The program that the kill test kills: it writes to a database until then.
    .executableTarget(
      name: "varve-kill-target",
      dependencies: ["VarveEngine"],
      path: "Tests/KillTarget",
      swiftSettings: settings
    ),
    // The processes that write a database and follow it.
    .executableTarget(
      name: "varve-follow-target",
      dependencies: ["VarveEngine"],
      path: "Tests/FollowTarget",
      swiftSettings: settings
    ),
    // The program whose resident memory is measured.
    .executableTarget(
      name: "varve-memory-target",
      dependencies: ["VarveEngine", "EngineTestSupport"],
      path: "Tests/MemoryTarget",
      swiftSettings: settings
    ),
    .testTarget(
      name: "VarveEngineModelTests",
      dependencies: ["VarveEngine", "EngineTestSupport"],
      exclude: ["Metamorphic/Sequences"],
      swiftSettings: testSettings
    ),
    // The readers of bytes from disk under damaged inputs. `Fuzz` is also a package of its own, which runs
    // the same targets for hours.
    .testTarget(
      name: "VarveEngineFuzzTests",
      dependencies: ["Varve", "VarveEngine", "EngineTestSupport"],
      path: "Fuzz",
      exclude: [
        "Corpus", "Package.swift", "run", "libfuzzer", "Sources/CFuzzDriver", "Sources/FuzzDriver", "Sources/FuzzEntry",
      ],
      sources: ["Sources/FuzzTargets", "Tests"],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "VarveToolTests",
      dependencies: ["VarveTool", "Varve", "varve-kill-target"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "QuickstartJobTests",
      dependencies: ["QuickstartJob", "Varve", "VarveEngine"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveTestingTests",
      dependencies: ["VarveTesting", "Varve", "EngineTestSupport"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "StyleTests",
      swiftSettings: plainTestSettings
    ),
  ]
)

// A run that needs a few of the suites says whose, and does not wait for the rest to be compiled.
if let chosen = Context.environment["VARVE_TEST_TARGETS"] {
  let names = Set(chosen.split(separator: " ").map(String.init))
  package.targets.removeAll { $0.type == .test && !names.contains($0.name) }
}
