extension ByteView {
  /// The bytes as a span. Safety: it must not outlive the view's owner.
  @unsafe
  @inline(__always)
  var rawSpan: RawSpan {
    @_lifetime(immortal)
    get { unsafe overrideLifetime(RawSpan(_unsafeStart: base, byteCount: count)) }
  }
}

/// Declares that a span is valid as long as `source` is not changed. The caller that returns the span guarantees
/// this.
@unsafe
@_unsafeNonescapableResult
@_lifetime(borrow source)
@inline(__always)
func overrideLifetime<T: ~Escapable, U: ~Copyable & ~Escapable>(_ span: consuming T, borrowing source: borrowing U) -> T
{
  span
}

/// Removes the lifetime dependency of a span on the pointer that it was made from.
@unsafe
@_unsafeNonescapableResult
@_lifetime(immortal)
@inline(__always)
func overrideLifetime<T: ~Escapable>(_ span: consuming T) -> T { span }
