internal import Synchronization

/// Whom to notify of something: no one at first, later what was set. How a lower part of the engine calls a higher one
/// that it does not know.
///
/// Where no one is, a call does nothing.
///
/// # Why it is not a function in a `Mutex`
/// A function that is kept as a generic value is wrapped in a thunk when it is put in, and in one more when it is
/// taken out; and `withLock` takes it out and puts it back, whatever its body does. So each call made the next one
/// longer by two steps, for ever: 400,000 calls took 5.9 s instead of 0.01, and 6 MiB. As a member of a structure it
/// keeps its form.
///
/// Safe from any thread.
final class Callback: Sendable {
  private struct Body {
    let call: @Sendable () -> Void
  }

  private let body = Mutex<Body?>(nil)

  /// Whether anybody would be notified.
  var isSet: Bool { body.withLock { $0 != nil } }

  /// From now on `call` is notified, and no one else.
  func set(_ call: @escaping @Sendable () -> Void) { body.withLock { $0 = Body(call: call) } }

  /// Tells the caller that is set. Not under the lock: what is called may set another.
  func callAsFunction() { body.withLock { $0 }?.call() }
}
