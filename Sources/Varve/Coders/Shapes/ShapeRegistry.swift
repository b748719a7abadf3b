/// Where shapes get their numbers: the catalog of a database.
///
/// Called from any thread, for each shape about once in the life of a coder, never under a lock of the coder.
///
/// # What a number promises
/// A coder keeps a number that it got for as long as it lives, and writes it into rows of any transaction. So an
/// implementation has the shape on disk before it answers, in a commit of its own: a number that went away with a
/// transaction that was rolled back would leave rows of others without their shape.
package protocol ShapeRegistry: AnyObject, Sendable {
  /// The number of a shape: at least 1, the same for equal shapes, given now where it has none.
  func number(of shape: Shape) throws -> UInt32

  /// The shape with a number. Throws where there is none.
  func shape(_ number: UInt32) throws -> Shape
}
