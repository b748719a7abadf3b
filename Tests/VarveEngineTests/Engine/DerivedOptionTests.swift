import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of `explain()` and of the options that it lists.
struct DerivedOptionTests {
  private func names(of value: Any) -> [String] { Mirror(reflecting: value).children.compactMap(\.label) }

  @Test func `every derived value is named, with a reason`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let derived = engine.derivedOptions
    let named = Set(derived.map(\.name))
    // The options that the engine derives and keeps: all of them, including those that are added later. The
    // memtable's size is that of the plan.
    let plan = engine.core.background.plan
    let kept: [Any] = [plan, plan.controllerOptions, engine.core.background.compactions.picker.options]
    for name in kept.flatMap(names) { #expect(named.contains(name), "\(name)") }
    for name in names(of: engine.core.pipeline.log.options) { #expect(named.contains(name), "\(name)") }
    // The options themselves must be listed too, except for those that only the opening uses.
    let opening: Set = ["createIfMissing", "errorIfExists", "readOnly", "listener", "memoryBudget", "cacheSize"]
    for name in names(of: engine.options) where !opening.contains(name) { #expect(named.contains(name), "\(name)") }
    #expect(named.count == derived.count, "no name twice")
    for option in derived { #expect(!option.value.isEmpty && option.reason.count > 5, "\(option)") }
    #expect(Set(derived.map(\.part)) == Set(DerivedOption.Part.allCases))
    let text = engine.explain()
    for option in derived { #expect(text.contains("  \(option)\n")) }
    #expect(text.contains("memory budget: "))
    try engine.close()
  }

  @Test func `an explicit value says that it comes from the options, and a derived one says from what`() throws {
    var options = EngineOptions()
    options.memoryBudget = 64 << 20
    options.openTableCount = 100
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    func option(_ name: String) throws -> DerivedOption {
      try #require(engine.derivedOptions.first { $0.name == name })
    }
    #expect(try option("limit").value == "67108864")
    #expect(try option("limit").reason.hasPrefix("as the options say"))
    #expect(try option("openTableCount").value == "100")
    #expect(try option("memtableSize").value == "\(8 << 20)")
    #expect(try option("memtableSize").reason.hasPrefix("an eighth"))
    #expect(try option("publishesStatistics").value == "false")
    try engine.setMemoryBudget(128 << 20)
    #expect(try option("limit").value == "134217728")
    #expect(try option("maximumSegmentSize").value == "\(4 << 20)", "as it was at open")
    try engine.close()
  }
}
