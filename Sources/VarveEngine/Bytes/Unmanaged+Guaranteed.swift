extension Unmanaged {
  /// Uses the object without counting a reference: the caller knows that it lives.
  ///
  /// The standard library's method throws `any Error`: a box where it throws, and nothing where it doesn't. A `Result`
  /// around the body would cost each call that succeeds 30 instructions.
  @inline(__always)
  func withGuaranteed<R, E: Error>(_ body: (Instance) throws(E) -> R) throws(E) -> R {
    do {
      return try unsafe _withUnsafeGuaranteedRef { try body($0) }
    } catch {
      // Always is: the compiler lets the body throw nothing else.
      guard let error = error as? E else { fatalError("a body that throws \(E.self) threw \(error)") }
      throw error
    }
  }
}
