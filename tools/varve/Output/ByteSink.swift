#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Writes to a file, a stream or standard output with a buffer.
///
/// A file is written under the temporary name `<file>.partial` and renamed in `finish`, so a file with the final name
/// is complete.
///
/// Use a sink on one thread at a time.
final class ByteSink {
  private static let bufferSize = 1 << 18
  private let descriptor: Int32
  private let path: String
  private let partialPath: String?
  private var buffer: [UInt8] = []
  private(set) var byteCount: UInt64 = 0

  /// Creates a file, or with `size` continues an interrupted one after that many bytes. A stream is opened.
  init(_ target: OutputTarget, from size: UInt64? = nil) throws {
    buffer.reserveCapacity(Self.bufferSize)
    switch target {
    case .descriptor(let number):
      path = number == STDOUT_FILENO ? "-" : "/dev/fd/\(number)"
      partialPath = nil
      descriptor = number
    case .stream(let path):
      self.path = path
      partialPath = nil
      descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw ToolError.system("open", file: path) }
    case .file(let path):
      self.path = path
      let partial = Self.partialPath(path)
      partialPath = partial
      descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
      // The name is the one that the user knows.
      guard descriptor >= 0 else { throw ToolError.system("open", file: path) }
      byteCount = size ?? 0
      guard ftruncate(descriptor, off_t(byteCount)) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
        throw ToolError.system("ftruncate", file: partial)
      }
    }
  }

  /// Returns the name of a file until it is complete.
  static func partialPath(_ path: String) -> String { path + ".partial" }

  /// Returns a sink for standard output.
  static func standardOutput() throws -> ByteSink { try ByteSink(.standardOutput) }

  func write(_ bytes: some Collection<UInt8>) throws {
    buffer.append(contentsOf: bytes)
    byteCount += UInt64(bytes.count)
    if buffer.count >= Self.bufferSize { try flush() }
  }

  func write(_ text: String) throws { try write(text.utf8) }

  /// Writes a line of text.
  func writeLine(_ text: String) throws {
    try write(text.utf8)
    try write(CollectionOfOne(0x0a))
  }

  /// Writes an object as JSON on its own line.
  func writeJSON(_ value: some Encodable) throws {
    try write(try JSONText.bytes(value))
    try write(CollectionOfOne(0x0a))
  }

  func flush() throws {
    try SystemWrite.all(buffer, to: descriptor, file: path)
    buffer.removeAll(keepingCapacity: true)
  }

  /// Writes the buffered bytes. A file is then synced and renamed to its final name.
  func finish() throws {
    try flush()
    guard let partialPath else { return }
    guard fsync(descriptor) == 0 else { throw ToolError.system("fsync", file: partialPath) }
    guard close(descriptor) == 0 else { throw ToolError.system("close", file: partialPath) }
    guard unsafe rename(partialPath, path) == 0 else { throw ToolError.system("rename", file: path) }
  }
}

/// Writes text to standard error. Errors are ignored, because there is no other channel to report them.
enum StandardError {
  static func write(_ text: String) { try? SystemWrite.all(Array(text.utf8), to: STDERR_FILENO, file: "-") }

  static var isTerminal: Bool { isatty(STDERR_FILENO) == 1 }
}

/// Properties of standard output.
enum StandardOutput {
  static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
}

private enum SystemWrite {
  static func all(_ bytes: [UInt8], to descriptor: Int32, file: String) throws {
    var done = 0
    while done < bytes.count {
      // Safety: the buffer is valid for the call, and `done` is below its count.
      let written = unsafe bytes.withUnsafeBytes { buffer in
        unsafe write(descriptor, buffer.baseAddress.map { unsafe $0 + done }, buffer.count - done)
      }
      if written < 0 {
        guard errno == EINTR else { throw ToolError.system("write", file: file) }
        continue
      }
      done += written
    }
  }
}
