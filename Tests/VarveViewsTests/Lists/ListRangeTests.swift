import Testing
import Varve
import VarveViews

/// Tests of ranges of groups, and of reversed groups.
struct ListRangeTests {
  private let shelf: ShelfCase

  init() throws {
    shelf = try ShelfCase()
    try shelf.fill([("a", 10..<20)])
  }

  private func insert(_ id: Int, _ rank: Int) throws { try shelf.set(Item(id: id, group: "a", rank: rank)) }

  @Test func `a fixed range has rows pushed in and out at its edges`() throws {
    // 79
    var first = try FollowedList(shelf, .all.range(.fixed(3)))
    var last = try FollowedList(shelf, .all.range(.fixed(3, offset: 1, from: .end)))
    #expect(first.shown.description == "a:10,11,12" && last.shown.description == "a:16,17,18")
    try insert(1, 10)
    #expect(try first.step() == "-0.2 +0.0")
    #expect(try last.step() == "")
    try insert(2, 99)
    #expect(try first.step() == "")
    #expect(try last.step() == "-0.0 +0.2")
    try shelf.remove(17)
    #expect(try last.step() == "-0.0 +0.0")
    #expect(last.mapping.sections.first?.range == 7..<10)
    #expect(last.mapping.sections.first?.groupCount == 11)
  }

  @Test func `a flexible range follows its rows`() throws {
    // 79
    var list = try FollowedList(shelf, .all.range(.flexible(3, offset: 3)))
    #expect(list.shown.description == "a:13,14,15")
    try insert(1, 10)
    #expect(try list.step() == "")
    #expect(list.mapping.sections.first?.range == 4..<7)
    try insert(2, 14)
    #expect(try list.step() == "+0.1")
    try shelf.remove(13)
    #expect(try list.step() == "-0.0")
    #expect(list.shown.description == "a:2,14,15")
    try shelf.remove(2, 14, 15)
    #expect(try list.step() == "-0.2 -0.1 -0.0")
    #expect(list.mapping.sections.first?.range == 4..<4)
  }

  @Test(arguments: [ListRange.Growth.inside, .pinned, .other, .both])
  func `growth says which rows at the edges are taken in`(_ growth: ListRange.Growth) throws {
    for edge in [ListEdge.start, .end] {
      let shelf = try ShelfCase()
      try shelf.fill([("a", 10..<20)])
      var list = try FollowedList(shelf, .all.range(.flexible(4, offset: 3, from: edge, growth: growth)))
      #expect(list.shown.description == "a:13,14,15,16")
      let growsLow = growth == .both || growth == (edge == .start ? .pinned : .other)
      let growsHigh = growth == .both || growth == (edge == .start ? .other : .pinned)
      // 12 < 1 < 13, and 16 < 2 < 17.
      try shelf.set(Item(id: 1, group: "a", rank: 13))
      #expect(try list.step() == (growsLow ? "+0.0" : ""))
      try shelf.set(Item(id: 2, group: "a", rank: 17))
      #expect(try list.step() == (growsHigh ? "+0.\(growsLow ? 5 : 4)" : ""))
      // A row of the range that changes at the edge stays in it.
      try shelf.set(Item(id: 13, group: "a", rank: 13), Item(id: 16, group: "a", rank: 16))
      #expect(list.changes.isEmpty || !list.shown.sections[0].ids.isEmpty)
      #expect(try list.step().contains("*"))
      #expect(list.shown.sections[0].ids.contains(13) && list.shown.sections[0].ids.contains(16))
    }
  }

  @Test func `a flexible range is filled and cut within its bounds`() throws {
    var list = try FollowedList(shelf, .all.range(.flexible(3, minimum: 2, maximum: 4)))
    try insert(1, 10)
    #expect(try list.step() == "+0.0")
    try insert(2, 11)
    #expect(try list.step() == "-0.3 +0.2" || list.shown.sections[0].ids.count == 4)
    #expect(list.shown.description == "a:1,10,2,11")
    try shelf.remove(1, 10, 2)
    #expect(try list.step() == "-0.2 -0.1 -0.0 +0.1")
    #expect(list.shown.description == "a:11,12")
  }

  @Test func `a reversed group is shown backwards, and its range counts from there`() throws {
    var list = try FollowedList(shelf, .all.reversed().range(.fixed(3)))
    #expect(list.shown.description == "a:19,18,17")
    try insert(1, 99)
    #expect(try list.step() == "-0.2 +0.0")
    var ends = try FollowedList(shelf, .all.reversed(in: "a").range(.fixed(2, from: .end), in: "a"))
    #expect(ends.shown.description == "a:11,10")
    try shelf.remove(10)
    #expect(try ends.step() == "-0.1 +0.0")
    #expect(ends.mapping.nearestIndex(to: 99, in: "a") == ListIndex(section: 0, offset: 0))
    #expect(ends.mapping.nearestIndex(to: -5, in: "a") == ListIndex(section: 0, offset: 1))
    #expect(ends.mapping.nearestIndex(to: 0, in: "none") == nil)
  }

  @Test func `extreme ranges are clamped`() throws {
    for range in [
      ListRange.fixed(.max, offset: .max), .fixed(-1, offset: -1), .fixed(.max), .fixed(.min, offset: .min),
      .flexible(.max, offset: .max, minimum: .max, maximum: .max), .flexible(-1, minimum: -1, maximum: -1),
    ] {
      for edge in [ListSections<String>.all, .all.reversed()] {
        var list = try FollowedList(shelf, edge.range(range).neighbors([.max, .min]).consolidated(below: .max))
        try insert(1, 12)
        #expect(!(try list.step()).contains("instead"))
        try shelf.remove(1)
        #expect(!(try list.step()).contains("instead"))
      }
    }
  }
}
