#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A value one byte larger than the limit, in address space that is never touched: the limit is checked before any
/// byte is read.
///
/// # Safety
/// The mapping lives as long as the object, and the span does not leave `withSpan`.
@safe
final class OversizedBytes {
  static let count = (1 << 30) + 1
  private let base: UnsafeMutableRawPointer

  init() {
    let base = unsafe mmap(nil, Self.count, PROT_READ, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0)
    guard let base = unsafe base, unsafe base != MAP_FAILED else { fatalError("no addresses for a gigabyte") }
    unsafe self.base = base
  }

  deinit { unsafe _ = munmap(base, Self.count) }

  func withSpan<R, E: Error>(_ body: (RawSpan) throws(E) -> R) throws(E) -> R {
    unsafe try body(RawSpan(_unsafeStart: base, byteCount: Self.count))
  }
}
