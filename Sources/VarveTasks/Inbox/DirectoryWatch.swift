internal import Dispatch
internal import Foundation
internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Calls a closure when a file was moved into a directory. The kernel reports this, so the directory is not polled.
final class DirectoryWatch: Sendable {
  #if os(Linux)
    private let source: Mutex<any DispatchSourceRead>
  #else
    private let source: Mutex<any DispatchSourceFileSystemObject>
  #endif

  /// Begins to watch a directory. Returns `nil` if the system can't watch it.
  init?(_ directory: String, _ body: @escaping @Sendable () -> Void) {
    let queue = DispatchQueue(label: "varve.tasks.inbox")
    #if os(Linux)
      let descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
      guard descriptor >= 0 else { return nil }
      guard unsafe inotify_add_watch(descriptor, directory, UInt32(IN_MOVED_TO)) >= 0 else {
        close(descriptor)
        return nil
      }
      let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
      source.setEventHandler {
        // The events are only drained: `body` looks for the files in the directory.
        var bytes = [UInt8](repeating: 0, count: 4_096)
        while unsafe read(descriptor, &bytes, bytes.count) > 0 {}
        body()
      }
    #else
      let descriptor = unsafe open(directory, O_EVTONLY)
      guard descriptor >= 0 else { return nil }
      let source = DispatchSource.makeFileSystemObjectSource(
        fileDescriptor: descriptor, eventMask: .write, queue: queue)
      source.setEventHandler { body() }
    #endif
    source.setCancelHandler { close(descriptor) }
    source.resume()
    self.source = Mutex(source)
  }

  deinit { stop() }

  func stop() { source.withLock { $0.cancel() } }
}
