/// A table of shapes by number, and of numbers by shape.
struct ShapeTable {
  private var shapes: [UInt32: Shape] = [:]
  private var numbers: [Shape: UInt32] = [:]
  private(set) var next: UInt32

  /// Creates a table without shapes. No number below `next` is ever assigned.
  init(next: UInt32 = 1) { self.next = next }

  func number(of shape: Shape) -> UInt32? { numbers[shape] }
  func shape(_ number: UInt32) -> Shape? { shapes[number] }

  mutating func add(_ shape: Shape, _ number: UInt32) {
    shapes[number] = shape
    numbers[shape] = number
    next = max(next, number + 1)
  }

  mutating func add(_ bytes: [UInt8], _ number: UInt32) throws { add(try Shape(bytes), number) }
}
