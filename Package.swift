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

/// Only the engine omits the dynamic exclusivity checks in release builds, because they cost time on each access to a
/// class property of the hot path. Checks of bounds, overflow and preconditions remain.
let engineSettings: [SwiftSetting] = [
  .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
]

/// Behavior suites are compiled with -Onone in every configuration. Optimizing them would double the build time, and
/// only the code under test has to match what users run. The compiler would parse and check an unoptimized module a
/// second time, for modules that import it to begin sooner; hardly any module imports these.
let plainTestSettings: [SwiftSetting] =
  settings + [.unsafeFlags(["-Onone", "-no-emit-module-separately-wmo"])]

/// Suites that repeat many steps (models, crashes, fuzzing) are optimized. `tools/test` also builds the fuzzing
/// targets beside plain release: there they are not optimized either.
let testSettings: [SwiftSetting] =
  Context.environment["VARVE_PLAIN_TESTS"] == nil ? settings : plainTestSettings

/// Returns the target with the code that suites of several modules share.
///
/// It uses internals of the module under test, so it is a test target too: those are compiled only if internals are
/// visible.
func fixtures(_ name: String, _ dependencies: [Target.Dependency], _ settings: [SwiftSetting]) -> Target {
  .testTarget(name: name, dependencies: dependencies, path: "Tests/\(name)", swiftSettings: settings)
}

/// Returns a target with behavior suites of the engine.
///
/// Each module has the suites of some of the engine's layers, in folders with the names of the layers.
func engineTests(_ name: String, and dependencies: [Target.Dependency] = []) -> Target {
  .testTarget(
    name: name,
    dependencies: ["VarveEngine", "EngineTestSupport", "EngineFixtures", "CVarve", "FutexLocks"] + dependencies,
    swiftSettings: plainTestSettings)
}

/// Returns a target with behavior suites of the object database.
func objectTests(_ name: String, _ settings: [SwiftSetting] = plainTestSettings) -> Target {
  .testTarget(
    name: name,
    dependencies: [
      "Varve", "VarveInspection", "VarveEngine", "UnicodeNormalForm", "EngineTestSupport", "VarveTestSupport",
      "ObjectFixtures",
    ],
    swiftSettings: settings)
}

let package = Package(
  name: "varve",
  // The first versions that have `Mutex` and `Atomic`.
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Varve", targets: ["Varve"]),
    .library(name: "VarveEngine", targets: ["VarveEngine"]),
    .library(name: "VarveRelationships", targets: ["VarveRelationships"]),
    .library(name: "VarveViews", targets: ["VarveViews"]),
    .library(name: "VarveTasks", targets: ["VarveTasks"]),
    .library(name: "VarveTaskQueue", targets: ["VarveTaskQueue"]),
    .library(name: "VarveTasksService", targets: ["VarveTasksService"]),
    .library(name: "VarveInspection", targets: ["VarveInspection"]),
    .library(name: "VarveTesting", targets: ["VarveTesting"]),
    .executable(name: "varve", targets: ["VarveTool"]),
    .executable(name: "varve-quickstart", targets: ["QuickstartJob"]),
  ],
  traits: [
    .trait(name: "SQLite", description: "The command line imports tables of SQLite (libsqlite3-dev)."),
    .trait(
      name: "Service", description: "Tasks as a service of swift-service-lifecycle, with metrics and traces."),
    .default(enabledTraits: []),
  ],
  dependencies: [
    // Only for the programs in tools/.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    // For the object database; the engine depends on no package.
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    // Only with the trait Service.
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
  ],
  targets: [
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"]), .brew(["lz4"])]),
    .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"]), .brew(["zstd"])]),
    // Only for the command line with the trait SQLite. A program that uses this package may have a target named
    // CSQLite.
    .systemLibrary(
      name: "CVarveSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite"])]),
    .target(name: "CVarve"),
    // The lock for short critical sections.
    .target(name: "FutexLocks", dependencies: ["CVarve"], swiftSettings: settings),
    .target(
      name: "VarveEngine",
      dependencies: ["CVarve", "CLZ4", "CZstd", "FutexLocks"],
      swiftSettings: settings + engineSettings
    ),
    // The normal form of text in keys.
    .target(name: "UnicodeNormalForm", swiftSettings: settings),
    .target(
      name: "Varve",
      dependencies: [
        "VarveEngine", "CVarve", "FutexLocks", "UnicodeNormalForm", .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: settings
    ),
    // Edges between rows, an extension that uses the public API.
    .target(
      name: "VarveRelationships",
      dependencies: ["Varve", "UnicodeNormalForm", .product(name: "Logging", package: "swift-log")],
      swiftSettings: settings
    ),
    // Views and lists: rows in groups and in order, an extension that uses the public API.
    .target(name: "VarveViews", dependencies: ["Varve", "FutexLocks"], swiftSettings: settings),
    // Tasks that are enqueued in transactions and run, an extension that uses the public API.
    .target(
      name: "VarveTasks",
      dependencies: ["Varve", "UnicodeNormalForm", "FutexLocks", .product(name: "Logging", package: "swift-log")],
      swiftSettings: settings
    ),
    // Tasks as a service beside other services of a server; empty without the trait Service.
    .target(
      name: "VarveTasksService",
      dependencies: [
        "Varve", "VarveTasks",
        .product(
          name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Service"])),
        .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Service"])),
        .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Service"])),
      ],
      swiftSettings: settings
    ),
    // Rows that are tasks, as in YapTaskQueue.
    .target(name: "VarveTaskQueue", dependencies: ["Varve", "VarveTasks"], swiftSettings: settings),
    // For tools that read a database without the types of its program.
    .target(name: "VarveInspection", dependencies: ["Varve"], swiftSettings: settings),
    // For the tests of programs that store their objects in Varve.
    .target(
      name: "VarveTesting", dependencies: ["Varve", "VarveTasks", "VarveInspection", "VarveEngine"],
      swiftSettings: settings),
    .executableTarget(
      name: "VarveTool",
      dependencies: [
        "Varve", "VarveRelationships", "VarveTasks", "VarveInspection", "VarveEngine",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .target(name: "CVarveSQLite", condition: .when(traits: ["SQLite"])),
      ],
      path: "tools/varve",
      swiftSettings: settings
    ),
    .executableTarget(
      name: "QuickstartJob",
      dependencies: [
        "Varve", "VarveRelationships", "VarveTasks", "VarveViews", "VarveEngine",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ],
      path: "tools/quickstart-job",
      swiftSettings: settings
    ),
    .target(
      name: "EngineTestSupport",
      dependencies: ["VarveEngine"],
      path: "Tests/EngineTestSupport",
      swiftSettings: settings
    ),
    fixtures("EngineFixtures", ["VarveEngine", "EngineTestSupport"], plainTestSettings),
    // From the lowest layer to the highest: Bytes to Compaction, the files, Families to Engine, and the code on top of
    // it.
    engineTests("VarveEngineMemoryTests"),
    engineTests("VarveEngineFileTests"),
    engineTests("VarveEngineTests", and: ["varve-put-target"]),
    engineTests("VarveEngineServiceTests"),
    // Suites with many threads, which the thread sanitizer runs at each submission.
    engineTests("VarveEngineThreadTests", and: ["EngineModel"]),
    // Suites for damaged bytes and all other input that a reader of files must refuse; they also run in the plain
    // release build.
    engineTests("VarveEngineDamageTests"),
    // The program whose puts are measured by their cost, and the library that counts its allocations.
    .target(name: "AllocationCount", path: "Tests/AllocationCount"),
    .executableTarget(
      name: "varve-put-target",
      dependencies: ["VarveEngine", "AllocationCount"],
      path: "Tests/PutTarget",
      swiftSettings: settings
    ),
    // A second storage backend of the object database, and the code that its suites share.
    .target(
      name: "VarveTestSupport",
      dependencies: ["Varve", "VarveTesting", "VarveEngine", "EngineTestSupport"],
      path: "Tests/VarveTestSupport",
      swiftSettings: settings
    ),
    fixtures(
      "ObjectFixtures", ["Varve", "VarveEngine", "EngineTestSupport", "VarveTestSupport"], plainTestSettings),
    // Optimized, because these suites run many random values.
    objectTests("VarveCoderTests", testSettings),
    objectTests("VarveTests"),
    objectTests("VarveThreadTests"),
    objectTests("VarveDamageTests"),
    // Rows with edges, and the code that suites of relationships share.
    fixtures("RelationshipFixtures", ["Varve", "VarveRelationships", "EngineTestSupport"], plainTestSettings),
    .testTarget(
      name: "VarveTasksTests",
      dependencies: [
        "VarveTasks", "VarveTesting", "Varve", "FutexLocks", "EngineTestSupport", "VarveTestSupport",
        "varve-task-target",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: plainTestSettings
    ),
    // The program that runs tasks as a service, and checks their metrics and traces.
    .executableTarget(
      name: "varve-service-target",
      dependencies: [
        "Varve", "VarveTasks", "VarveTasksService", "VarveTesting",
        .product(name: "Logging", package: "swift-log"),
        .product(
          name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Service"])),
        .product(name: "MetricsTestKit", package: "swift-metrics", condition: .when(traits: ["Service"])),
        .product(
          name: "InMemoryTracing", package: "swift-distributed-tracing", condition: .when(traits: ["Service"])),
      ],
      path: "Tests/ServiceTarget",
      exclude: ["run"],
      swiftSettings: settings
    ),
    // The program of the processes that run tasks and are killed, and of those that write and read objects.
    .executableTarget(
      name: "varve-task-target",
      dependencies: [
        "Varve", "VarveRelationships", "VarveTasks", "VarveEngine", .product(name: "Logging", package: "swift-log"),
      ],
      path: "Tests/TaskTarget",
      swiftSettings: settings
    ),
    .testTarget(
      name: "VarveTaskQueueTests",
      dependencies: ["VarveTaskQueue", "VarveTasks", "VarveTesting", "Varve", "EngineTestSupport", "VarveTestSupport"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveViewsTests",
      dependencies: [
        "VarveViews", "Varve", "VarveTesting", "VarveEngine", "EngineTestSupport", "VarveTestSupport",
        "ObjectFixtures",
      ],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveRelationshipsTests",
      dependencies: [
        "VarveRelationships", "Varve", "EngineTestSupport", "VarveTestSupport", "ObjectFixtures",
        "RelationshipFixtures",
      ],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveModelTests",
      dependencies: [
        "Varve", "VarveRelationships", "VarveEngine", "EngineTestSupport", "VarveTestSupport", "ObjectFixtures",
        "RelationshipFixtures",
      ],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "VarveEngineCrashTests",
      dependencies: [
        "VarveEngine", "EngineFixtures", "EngineTestSupport", "varve-kill-target", "varve-memory-target",
        "varve-follow-target",
      ],
      swiftSettings: testSettings
    ),
    // The program that the kill test kills while it writes to a database.
    .executableTarget(
      name: "varve-kill-target",
      dependencies: ["VarveEngine", "EngineTestSupport"],
      path: "Tests/KillTarget",
      swiftSettings: settings
    ),
    // The program of the processes that write a database and follow it.
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
    fixtures("EngineModel", ["VarveEngine", "EngineTestSupport"], testSettings),
    .testTarget(
      name: "VarveEngineModelTests",
      dependencies: ["VarveEngine", "EngineTestSupport", "EngineModel"],
      exclude: ["Metamorphic/Sequences"],
      swiftSettings: testSettings
    ),
    // The readers of bytes from disk with damaged inputs. `Fuzz` is also a separate package, which runs the same
    // targets for hours.
    .testTarget(
      name: "VarveEngineFuzzTests",
      dependencies: ["Varve", "VarveInspection", "VarveEngine", "EngineTestSupport"],
      path: "Fuzz",
      exclude: [
        "Corpus", "Package.swift", "run", "libfuzzer", "Sources/CFuzzDriver", "Sources/FuzzDriver", "Sources/FuzzEntry",
      ],
      sources: ["Sources/FuzzTargets", "Tests"],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "VarveToolTests",
      dependencies: [
        "VarveTool", "Varve", "VarveEngine", "VarveViews", "VarveRelationships", "VarveTasks", "VarveInspection",
        "EngineTestSupport", "varve-kill-target", "varve-task-target",
      ],
      swiftSettings: plainTestSettings
    ),
    // The program that creates SQLite files, and opens the databases that the command line imports from them.
    .executableTarget(
      name: "varve-import-target",
      dependencies: ["Varve", .target(name: "CVarveSQLite", condition: .when(traits: ["SQLite"]))],
      path: "Tests/ImportTarget",
      exclude: ["run"],
      swiftSettings: settings
    ),
    .testTarget(
      name: "QuickstartJobTests",
      dependencies: ["QuickstartJob", "Varve", "VarveViews", "VarveInspection", "VarveEngine"],
      swiftSettings: plainTestSettings
    ),
    .testTarget(
      name: "VarveTestingTests",
      dependencies: ["VarveTesting", "Varve", "VarveInspection", "EngineTestSupport"],
      swiftSettings: plainTestSettings
    ),
    // Optimized, because it reads every word of the repository.
    .testTarget(
      name: "StyleTests",
      swiftSettings: testSettings
    ),
  ]
)

// A run that needs only some of the suites names them, and compiles only these and their dependencies.
if let chosen = Context.environment["VARVE_TEST_TARGETS"] {
  var names: Set<String> = []
  func add(_ name: String) {
    guard let target = package.targets.first(where: { $0.name == name }), names.insert(name).inserted else { return }
    for dependency in target.dependencies {
      switch dependency {
      case .byNameItem(let name, _), .targetItem(let name, _): add(name)
      default: break
      }
    }
  }
  for name in chosen.split(separator: " ") { add(String(name)) }
  package.targets.removeAll { !names.contains($0.name) }
  package.products.removeAll { product in
    switch product {
    case let library as Product.Library: !names.isSuperset(of: library.targets)
    case let executable as Product.Executable: !names.isSuperset(of: executable.targets)
    default: false
    }
  }
  // A package that no chosen target uses is not fetched, and not reported as unused.
  let dependencies = package.targets.flatMap(\.dependencies)
  let packages = dependencies.compactMap { dependency -> String? in
    guard case .productItem(_, let package, _, _) = dependency else { return nil }
    return package
  }
  package.dependencies.removeAll { dependency in
    guard case .sourceControl(_, let location, _) = dependency.kind else { return false }
    return !packages.contains { location.hasSuffix("/" + $0) }
  }
}

// A warning is an error in the builds of the scripts (`tools/builds`), and not for users, whose compiler may be newer.
if Context.environment["VARVE_STRICT"] == "1" {
  for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.cSettings = (target.cSettings ?? []) + [.treatAllWarnings(as: .error)]
  }
}
