extension Unmanaged {
  /// Uses the object without counting a reference: whoever calls knows that it lives.
  @inline(__always)
  func withGuaranteed<R, E: Error>(_ body: (Instance) throws(E) -> R) throws(E) -> R {
    let result = unsafe _withUnsafeGuaranteedRef { (object) -> Result<R, E> in
      do throws(E) { return .success(try body(object)) } catch { return .failure(error) }
    }
    return try result.get()
  }
}
