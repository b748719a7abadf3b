extension Unmanaged {
  /// Calls `body` with the object without retaining it. The caller guarantees that the object lives.
  ///
  /// The standard library's method throws `any Error`, which allocates a box only if it throws. Returning a `Result`
  /// from the body instead would cost each call that succeeds 30 instructions.
  @inline(__always)
  func withGuaranteed<R, E: Error>(_ body: (Instance) throws(E) -> R) throws(E) -> R {
    do {
      return try unsafe _withUnsafeGuaranteedRef { try body($0) }
    } catch {
      // This cast always succeeds: the compiler lets the body throw no other type.
      guard let error = error as? E else { fatalError("a body that throws \(E.self) threw \(error)") }
      throw error
    }
  }
}
