import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of edits that contradict the version that they change.
struct VersionDamageTests {
  @Test func `an edit with an invalid change of tables is corruption`() throws {
    let base = try Make.version([
      0: [Make.table(1, "a", "m", sequences: 10...20)], 5: [Make.table(2, "c", "f"), Make.table(3, "g", "k")],
    ])
    func code(_ body: (inout VersionBuilder) throws -> Void) -> EngineError.Code? {
      errorCode {
        var builder = VersionBuilder(base)
        try body(&builder)
        _ = try builder.build()
      }
    }
    #expect(code { try $0.delete(FileNumber(9), level: 5) } == .corruption)
    #expect(code { try $0.delete(FileNumber(2), level: 4) } == .corruption)
    #expect(
      code {
        try $0.delete(FileNumber(2), level: 5)
        try $0.delete(FileNumber(2), level: 5)
      } == .corruption)
    #expect(code { try $0.add(Make.table(2, "c", "f"), level: 5) } == .corruption)
    #expect(code { try $0.add(Make.table(4, "f", "f"), level: 5) } == .corruption)
    #expect(code { try $0.add(Make.table(4, "a", "z"), level: 5) } == .corruption)
    #expect(code { try $0.add(Make.table(4, "a", "c"), level: 5) } == .corruption)
    #expect(code { try $0.add(Make.table(4, "l", "p", sequences: 15...30), level: 0) } == .corruption)
    #expect(code { try $0.add(Make.table(4, "l", "p"), level: 7) } == .corruption)
    #expect(
      code {
        try $0.add(Make.table(4, "x", "y"), level: 1)
        try $0.add(Make.table(4, "x", "y"), level: 2)
      } == .corruption)
    #expect(code { try $0.add(Make.table(4, "n", "p", sequences: 15...30), level: 0) } == nil)
    #expect(code { try $0.add(Make.table(4, "fa", "fz"), level: 5) } == nil)
  }
}
