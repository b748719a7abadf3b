import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of what a row leaves when it moves: the entry that it has, whatever the closure says of the row as it was.
struct ViewOldPlaceTests {
  private let site: StorageSite

  init() throws { site = try StorageSite(.memory) }

  @Test func `a row leaves the group that it is in, even if the closure would give its old values another one`() throws
  {
    let shelf = Setting("a")
    let database = try Database.open(try site.open(), path: "old")
    let handle = try database.registerReady(
      AutoView<String>(version: "1", of: ["books"]) { row in
        ViewPlace(shelf.value, try row.object(as: Book.self).year)
      }, as: "shelves")
    try database.change { tx in try tx.add(Book("x", 1, "one"), Book("x", 2, "two"), Book("x", 3, "three")) }
    shelf.value = "b"
    try database.change { tx throws in
      try tx.add(Book("x", 4, "one"))
      try tx.remove(key: "two", in: "books")
    }
    try database.look { tx throws in #expect(try tx[handle].shelves() == ["a": ["three"], "b": ["one"]]) }
    try database.close()
  }

  @Test func `a row that was removed and set again without the view comes after the rows of its position`() throws {
    let view = AutoView<String>(version: "1", of: ["books"]) { ViewPlace(try $0.object(as: Book.self).author ?? "") }
    var database = try Database.open(try site.open(), path: "old")
    try database.registerReady(view, as: "view")
    try database.change { tx in try tx.add(Book("x", 1, "one"), Book("x", 2, "two"), Book("x", 3, "three")) }
    try database.close()
    database = try Database.open(try site.open(), path: "old")
    try database.change { tx throws in
      try tx.remove(key: "one", in: "books")
      try tx.add(Book("x", 1, "one"))
    }
    try database.close()
    database = try Database.open(try site.open(), path: "old")
    let handle = try database.registerReady(view, as: "view")
    try database.look { tx throws in
      #expect(try tx[handle].titles("x") == ["two", "three", "one"])
      #expect(try tx[handle].verify() == [])
    }
    try database.close()
  }
}
