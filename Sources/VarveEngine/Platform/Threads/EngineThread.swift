internal import CVarve

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A thread of the engine's own, with a name that tools display.
///
/// The engine blocks in its background work, so it never uses threads of the concurrency runtime.
///
/// # Safety
/// The handle is valid until `join`, `joinUnlessCurrent` or `detach`, exactly one of which is called, once. The
/// object that starts the thread's body is passed to it retained and released there.
@safe
final class EngineThread: @unchecked Sendable {
  // Sendable: the handle is set once, by `init`.
  private let handle: pthread_t

  private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void
    init(name: String, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }

  /// Starts a thread, or returns nil if the system can't start another one, because of a limit of processes or
  /// because it has no address space for a stack.
  init?(ifPossible name: String, body: @escaping @Sendable () -> Void) {
    guard let created = EngineThread.start(name, body) else { return nil }
    handle = created
  }

  /// Starts a thread, for tests. Stops the process if the system can't start another one.
  init(name: String, body: @escaping @Sendable () -> Void) {
    guard let created = EngineThread.start(name, body) else { fatalError("the system starts no further thread") }
    handle = created
  }

  private static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> pthread_t? {
    let start = unsafe Unmanaged.passRetained(Start(name: name, body: body))
    #if canImport(Darwin)
      var created: pthread_t?
      let result = unsafe pthread_create(&created, nil, { unsafe EngineThread.run($0) }, start.toOpaque())
    #else
      var created = pthread_t()
      let result = unsafe pthread_create(&created, nil, { unsafe EngineThread.run($0) }, start.toOpaque())
    #endif
    guard result == 0 else {
      unsafe start.release()
      return nil
    }
    return created
  }

  private static func run(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument = unsafe argument else { return nil }
    let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
    unsafe cvarve_name_thread(start.name)
    start.body()
    return nil
  }

  /// Waits until the body has returned. It must be called once, by another thread.
  func join() {
    #if canImport(Darwin)
      let result = unsafe pthread_join(handle, nil)
    #else
      let result = pthread_join(handle, nil)
    #endif
    guard result == 0 else { fatalError("a thread can't wait for its own end: shut down from outside of the jobs") }
  }

  /// Waits like `join`. If the thread itself calls it, the thread is detached instead and ends when its body returns.
  func joinUnlessCurrent() {
    #if canImport(Darwin)
      let isCurrent = unsafe pthread_equal(handle, pthread_self()) != 0
      guard isCurrent else { return join() }
      _ = unsafe pthread_detach(handle)
    #else
      guard pthread_equal(handle, pthread_self()) != 0 else { return join() }
      _ = pthread_detach(handle)
    #endif
  }

  /// Leaves the thread to end by itself, without a `join`.
  func detach() {
    #if canImport(Darwin)
      _ = unsafe pthread_detach(handle)
    #else
      _ = pthread_detach(handle)
    #endif
  }
}
