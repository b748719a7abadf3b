extension ByteView {
  /// The bytes as a span. Safety: it must not outlive the view's owner.
  @unsafe
  @inline(__always)
  var rawSpan: RawSpan {
    @_lifetime(immortal)
    get { unsafe overrideLifetime(RawSpan(_unsafeStart: base, byteCount: count)) }
  }
}

/// Says that a span is valid as long as `source` is not changed: what the caller that hands it out promises.
@unsafe
@_unsafeNonescapableResult
@_lifetime(borrow source)
@inline(__always)
func overrideLifetime<T: ~Escapable, U: ~Copyable & ~Escapable>(_ span: consuming T, borrowing source: borrowing U) -> T
{
  span
}

/// Takes a span's tie to the pointer it was made of away.
@unsafe
@_unsafeNonescapableResult
@_lifetime(immortal)
@inline(__always)
func overrideLifetime<T: ~Escapable>(_ span: consuming T) -> T { span }
