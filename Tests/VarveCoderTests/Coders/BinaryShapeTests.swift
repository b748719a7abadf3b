import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of how many shapes are needed for types that omit fields, or encode them in changing orders.
struct BinaryShapeTests {
  @Test func `records that omit different fields share one shape in the end`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    // The subsets are all those that contain `a`.
    for _ in 0..<3 {
      for subset in 0..<32 {
        let chosen = (0..<5).filter { subset >> $0 & 1 == 1 }
        let others: [LooseFields.Key] = chosen.map { LooseFields.Key.allCases[$0 + 1] }
        let order = [.a] + others
        let copy = try coder.copy(LooseFields(order))
        #expect(copy.fields == LooseFields(order).fields)
      }
    }
    #expect(try shapes.texts.last == "{a, b, c, d, e, f}")
    #expect(shapes.count <= 6)
    let count = shapes.count
    let whole = try coder.encode(LooseFields([.a, .b, .c, .d, .e, .f]))
    let part = try coder.encode(LooseFields([.a, .c]))
    #expect(part.shape == whole.shape && part.bytes == hex("8021 c0 8023 c0 c0 c0"))
    #expect(shapes.count == count)
  }

  @Test func `the order of the fields is kept if all records agree on one`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    for order in [[LooseFields.Key.a, .d], [.a, .b, .d], [.a, .c, .d], [.a, .b, .c, .d, .e]] {
      #expect(try coder.copy(LooseFields(order)).order == order)
    }
    #expect(try shapes.texts.last.map { $0.contains("b") && $0.contains("c") } == true)
  }

  @Test func `records with too many different field orders are stored as maps`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    var orders: [[LooseFields.Key]] = [[]]
    for key in LooseFields.Key.allCases {
      orders = orders.flatMap { order in (0...order.count).map { index in order.inserted(key, index) } }
    }
    #expect(orders.count == 720)
    for _ in 0..<2 {
      for order in orders { #expect(try coder.copy(LooseFields(order)).fields == LooseFields(order).fields) }
    }
    #expect(shapes.count <= 6 * (CoderLimits.shapesPerFirstField + 1))
    let row = try coder.encode(LooseFields([.c, .b, .a]))
    #expect(row == (0, hex("d303 41618021 41628022 41638023")))
  }

  @Test func `two orders in turn need two shapes`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    for _ in 0..<5 {
      for order in [[LooseFields.Key.a, .b, .c], [.a, .c, .b]] {
        #expect(try coder.copy(LooseFields(order)).order == order)
      }
    }
    #expect(try shapes.texts == ["{a, b, c}", "{a, c, b}"])
  }

  @Test func `a shape is learned once for all callers`() throws {
    let shapes = MemoryShapes()
    let coder = BinaryCoder(shapes: shapes)
    for _ in 0..<3 { _ = try ValueCoder(.binary, binary: coder).encode(Zoo.Everything.sample) }
    let count = shapes.count
    // Another coder, as after the database was opened again.
    #expect(try ValueCoder(.binary, shapes).encode(Zoo.Everything.sample).shape > 0)
    #expect(shapes.count == count)
  }

  @Test func `the fields of a class and of its superclass are in one shape`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    for number in 0..<3 {
      let dog = Zoo.Dog(name: "Rex", owner: number == 1 ? nil : "Ann", tricks: ["sit"])
      #expect(try coder.copy(dog) == dog)
      // The superclass alone has another shape.
      #expect(try coder.copy(Zoo.Animal(name: "a", legs: number)).legs == number)
    }
    #expect(try shapes.texts == ["{owner, name, legs, tricks}", "{name, legs}"])
  }

  @Test func `field names that are too long for a shape are kept in the rows`() throws {
    struct Long: Codable, Equatable {
      var value: Int
      enum CodingKeys: CodingKey {
        case value
        var stringValue: String { String(repeating: "v", count: 2_000) }
        init?(stringValue: String) { self = .value }
        init?(intValue: Int) { nil }
        var intValue: Int? { nil }
      }
    }
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    #expect(try coder.copy([Long(value: 1), Long(value: 2)]) == [Long(value: 1), Long(value: 2)])
    #expect(shapes.count == 0)
  }

  @Test func `an error of the shape registry is thrown by the call, and a later call works`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    let failure = DatabaseError(.storage, "no space")
    shapes.fail(failure)
    #expect { try coder.encode(Zoo.Library.sample) } throws: { ($0 as? DatabaseError)?.code == .storage }
    shapes.fail(nil)
    #expect(try coder.copy(Zoo.Library.sample) == Zoo.Library.sample)
    #expect { try coder.decode(Zoo.Point.self, (99, [1, 2])) } throws: { ($0 as? DatabaseError)?.code == .corruption }
  }
}

extension Array {
  fileprivate func inserted(_ element: Element, _ index: Int) -> [Element] {
    var copy = self
    copy.insert(element, at: index)
    return copy
  }
}
