// swift-tools-version: 6.2
import PackageDescription

// The fuzzers are a package of their own: nothing of the engine depends on them. Their targets are also
// compiled into the engine's tests (`VarveEngineFuzzTests`), which replay every input that is kept.
//
// They look into the engine and the object floor: build with -enable-testing. `Fuzz/run` does.

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

let checkedSettings: [SwiftSetting] =
  settings + [.strictMemorySafety(), .treatWarning("StrictMemorySafety", as: .error)]

let package = Package(
  name: "varve-fuzz",
  products: [
    .executable(name: "varve-fuzz", targets: ["FuzzDriver"]),
    .library(name: "FuzzEntry", type: .static, targets: ["FuzzEntry"]),
  ],
  dependencies: [.package(name: "varve", path: "../")],
  targets: [
    .target(
      name: "FuzzTargets",
      dependencies: [
        .product(name: "Varve", package: "varve"), .product(name: "VarveInspection", package: "varve"),
        .product(name: "VarveEngine", package: "varve"),
      ],
      swiftSettings: checkedSettings),
    .target(name: "CFuzzDriver"),
    .executableTarget(name: "FuzzDriver", dependencies: ["FuzzTargets", "CFuzzDriver"], swiftSettings: settings),
    .target(name: "FuzzEntry", dependencies: ["FuzzTargets"], swiftSettings: settings),
  ]
)
