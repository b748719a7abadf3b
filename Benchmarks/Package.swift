// swift-tools-version: 6.2
import PackageDescription

// The benchmark harness is a separate package, so that none of its parts (peers, histograms, argument parsing) is ever
// a dependency of the engine. It uses only the engine's public API.
//
// Every peer is a package trait, and none is enabled by default: the harness builds on a machine without any of them.
// `./Benchmarks/compare` enables those whose headers it finds. SQLite and GRDB are the peers of the object database.
// GRDB is resolved only if its trait is enabled.

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  // Strict memory safety is not enabled: the harness is one large client of C libraries, so that nearly each line of
  // its adapters would carry the mark, and it reads only bytes that it has written.
  .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

let package = Package(
  name: "varve-benchmarks",
  products: [
    .executable(name: "varve-bench", targets: ["VarveBench"])
  ],
  traits: [
    .trait(name: "RocksDB", description: "Measure RocksDB too (librocksdb-dev)."),
    .trait(name: "LevelDB", description: "Measure LevelDB too (libleveldb-dev)."),
    .trait(name: "LMDB", description: "Measure LMDB too (liblmdb-dev)."),
    .trait(name: "SQLite", description: "Measure SQLite under the rows of objects and tasks (libsqlite3-dev)."),
    .trait(name: "GRDB", description: "Measure GRDB under the rows of objects and tasks (libsqlite3-dev)."),
    .trait(name: "PostgreSQL", description: "Measure PostgreSQL under the rows of tasks (libpq-dev, postgresql)."),
    .default(enabledTraits: []),
  ],
  dependencies: [
    .package(name: "varve", path: "../"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
  ],
  targets: [
    .systemLibrary(name: "CRocksDB", providers: [.apt(["librocksdb-dev"]), .brew(["rocksdb"])]),
    .systemLibrary(name: "CLevelDB", providers: [.apt(["libleveldb-dev"]), .brew(["leveldb"])]),
    .systemLibrary(name: "CLMDB", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
    .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"]), .brew(["sqlite"])]),
    .systemLibrary(name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
    .executableTarget(
      name: "VarveBench",
      dependencies: [
        .product(name: "Varve", package: "varve"),
        .product(name: "VarveRelationships", package: "varve"),
        .product(name: "VarveTasks", package: "varve"),
        .product(name: "VarveViews", package: "varve"),
        .product(name: "VarveEngine", package: "varve"),
        .product(name: "Histogram", package: "hdrhistogram-swift"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .target(name: "CRocksDB", condition: .when(traits: ["RocksDB"])),
        .target(name: "CLevelDB", condition: .when(traits: ["LevelDB"])),
        .target(name: "CLMDB", condition: .when(traits: ["LMDB"])),
        .target(name: "CSQLite", condition: .when(traits: ["SQLite"])),
        .target(name: "CPostgreSQL", condition: .when(traits: ["PostgreSQL"])),
        .product(name: "GRDB", package: "GRDB.swift", condition: .when(traits: ["GRDB"])),
      ],
      swiftSettings: settings
    ),
  ]
)

// A warning is an error in the builds of the scripts: see the manifest of the enclosing package.
if Context.environment["VARVE_STRICT"] == "1" {
  for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.cSettings = (target.cSettings ?? []) + [.treatAllWarnings(as: .error)]
  }
}
