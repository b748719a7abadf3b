// swift-tools-version: 6.2
import PackageDescription

// The fuzzers are a separate package, so that the engine does not depend on them. Their targets are also compiled into
// the engine's tests (`VarveEngineFuzzTests`), which replay every stored input.
//
// They use internals of the engine and the object database: build with -enable-testing, as `Fuzz/run` does.

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

// A warning is an error in the builds of the scripts: see the manifest of the enclosing package.
if Context.environment["VARVE_STRICT"] == "1" {
  for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.cSettings = (target.cSettings ?? []) + [.treatAllWarnings(as: .error)]
  }
}
