/// Assigns numbers to shapes: the catalog of a database.
///
/// It is called from any thread, about once per shape in the life of a coder, and never under a lock of the coder.
///
/// # The lifetime of a number
/// A coder keeps a number for as long as it exists, and writes it to rows in any transaction. So an implementation has
/// to store the shape on disk before it returns, in a commit of its own: a number that was lost with a transaction that
/// was rolled back would leave rows of others without their shape.
package protocol ShapeRegistry: AnyObject, Sendable {
  /// Returns the number of a shape: at least 1, and the same for equal shapes. A number is assigned if the shape has
  /// none.
  func number(of shape: Shape) throws -> UInt32

  /// Returns the shape with a number. Throws if there is none.
  func shape(_ number: UInt32) throws -> Shape
}
