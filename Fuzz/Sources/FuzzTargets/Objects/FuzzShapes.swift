import Synchronization

@testable import Varve

/// A registry of shapes as bytes that may be damaged: they are parsed on demand.
final class FuzzShapes: ShapeRegistry {
  private let shapes = Mutex<[[UInt8]]>([])

  func add(_ bytes: [UInt8]) { shapes.withLock { $0.append(bytes) } }

  /// The shapes in the order of their numbers, which begin at 1.
  var all: [[UInt8]] { shapes.withLock { $0 } }

  func number(of shape: Shape) throws -> UInt32 {
    let bytes = shape.bytes
    return shapes.withLock { shapes in
      if let index = shapes.firstIndex(of: bytes) { return UInt32(index + 1) }
      shapes.append(bytes)
      return UInt32(shapes.count)
    }
  }

  func shape(_ number: UInt32) throws -> Shape {
    let bytes = shapes.withLock { number >= 1 && number <= $0.count ? $0[Int(number) - 1] : nil }
    guard let bytes else { throw DatabaseError(.corruption, "there is no shape \(number)") }
    return try Shape(bytes)
  }
}
