/// An object whose value a scope keeps at its commit.
@_spi(Extensions) @MainActor
public protocol LiveMember: AnyObject, Sendable {
  /// How the value is read. Requested before each read.
  var reading: LiveReading { get }
  /// Receives an error that prevents the value from being read. The next commit leads to another attempt.
  func fail(_ error: any Error)
  /// Receives that the database is closed: nothing is read any more.
  func end()
}

@_spi(Extensions) extension LiveMember {
  /// Does nothing.
  public func end() {}
}

/// How a member of a scope reads its value, on a thread of the database.
@_spi(Extensions) public enum LiveReading: Sendable {
  /// From a snapshot, whenever a commit has changed what it reads.
  case value(@Sendable (ReadTransaction) -> LiveValue)
  /// From what the commits since its last value have changed, after every commit. The scope holds its snapshot as long
  /// as it has such a member. If one step fails, the next one begins where that one ended.
  case steps(@Sendable (LiveStep) throws -> LiveValue?)
}

/// The value that a member of a scope has read.
@_spi(Extensions) public struct LiveValue: Sendable {
  /// Sets the value of the member.
  let apply: @MainActor @Sendable () -> Void

  /// Creates a value with what sets it.
  public init(_ apply: @escaping @MainActor @Sendable () -> Void) { self.apply = apply }
}
