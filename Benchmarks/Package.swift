// swift-tools-version: 6.2
import PackageDescription

// The benchmark harness is a package of its own, so that nothing of it (peers, histograms, argument
// parsing) is ever a dependency of the engine. It sees the engine's public API only.
//
// Every peer is a package trait, none is on by default: the harness builds on a machine without any
// of them. `./Benchmarks/compare` turns on those whose headers it finds.
// SQLite and GRDB are the traits' names for the peers of the object floor, which come with it.

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  // Not strict memory safety: the harness is one large client of C libraries, nearly each line of
  // its adapters would carry the mark, and it never meets bytes that it did not write.
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
    .default(enabledTraits: []),
  ],
  dependencies: [
    .package(name: "varve", path: "../"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
  ],
  targets: [
    .systemLibrary(name: "CRocksDB", providers: [.apt(["librocksdb-dev"]), .brew(["rocksdb"])]),
    .systemLibrary(name: "CLevelDB", providers: [.apt(["libleveldb-dev"]), .brew(["leveldb"])]),
    .systemLibrary(name: "CLMDB", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
    .executableTarget(
      name: "VarveBench",
      dependencies: [
        .product(name: "VarveEngine", package: "varve"),
        .product(name: "Histogram", package: "hdrhistogram-swift"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .target(name: "CRocksDB", condition: .when(traits: ["RocksDB"])),
        .target(name: "CLevelDB", condition: .when(traits: ["LevelDB"])),
        .target(name: "CLMDB", condition: .when(traits: ["LMDB"])),
      ],
      swiftSettings: settings
    ),
  ]
)
