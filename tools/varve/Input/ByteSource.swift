#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Reads a file or standard input with a buffer, by lines or by counted bytes.
///
/// Every byte that was returned is part of `checksum` and `position`. Together they determine how far a source was
/// read, and whether another source begins with the same bytes.
///
/// Use a source on one thread at a time.
final class ByteSource {
  /// The maximum size of a line: the largest value in hexadecimal digits together with the largest key.
  private static let lineSizeMaximum = (2 << 30) + (1 << 20)
  private static let chunkSize = 1 << 18
  private let descriptor: Int32
  private let path: String
  private var buffer: [UInt8] = []
  private var index = 0
  private var isAtEnd = false
  /// The size of a file, or `nil` for a source without a size, such as a pipe.
  let size: UInt64?
  /// The number of bytes that were returned.
  private(set) var position: UInt64 = 0
  /// The FNV-1a checksum of 64 bits of the bytes that were returned.
  private(set) var checksum: UInt64 = 0xcbf2_9ce4_8422_2325

  init(_ path: String) throws {
    self.path = path
    if path == "-" {
      descriptor = STDIN_FILENO
    } else {
      descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw ToolError.system("open", file: path) }
    }
    var attributes = stat()
    guard unsafe fstat(descriptor, &attributes) == 0 else { throw ToolError.system("fstat", file: path) }
    guard attributes.st_mode & S_IFMT != S_IFDIR else { throw ToolError(.cannotOpen, "it is a directory", file: path) }
    size = attributes.st_mode & S_IFMT == S_IFREG ? UInt64(max(0, attributes.st_size)) : nil
  }

  deinit { if descriptor != STDIN_FILENO { _ = close(descriptor) } }

  /// Returns the next line without its newline, or `nil` at the end. A last line without a newline counts as a line.
  func nextLine() throws -> [UInt8]? {
    var searched = index
    while true {
      if let newline = buffer[searched...].firstIndex(of: 0x0a) {
        let line = Array(buffer[index..<newline])
        take(newline + 1 - index)
        return line
      }
      searched = buffer.count - index
      guard searched <= Self.lineSizeMaximum else {
        throw ToolError(.usage, "a line is longer than \(Self.lineSizeMaximum) bytes", file: path)
      }
      guard try fill() else { break }
    }
    guard index < buffer.count else { return nil }
    let line = Array(buffer[index...])
    take(line.count)
    return line
  }

  /// Returns exactly `count` bytes, or `nil` if the source ends before that.
  func next(_ count: Int) throws -> [UInt8]? {
    while buffer.count - index < count {
      guard try fill() else { return nil }
    }
    let bytes = Array(buffer[index..<index + count])
    take(count)
    return bytes
  }

  /// Returns the buffered bytes, or the bytes of one read if there are none, or `nil` at the end.
  func nextChunk() throws -> [UInt8]? {
    if index == buffer.count {
      guard try fill() else { return nil }
    }
    let bytes = Array(buffer[index...])
    take(bytes.count)
    return bytes
  }

  /// Skips bytes. Returns false if the source ends before that.
  func skip(_ count: UInt64) throws -> Bool {
    var left = count
    while left > 0 {
      if index == buffer.count {
        guard try fill() else { return false }
      }
      let step = Int(min(left, UInt64(buffer.count - index)))
      take(step)
      left -= UInt64(step)
    }
    return true
  }

  private func take(_ count: Int) {
    var hash = checksum
    for location in index..<index + count { hash = (hash ^ UInt64(buffer[location])) &* 0x100_0000_01b3 }
    checksum = hash
    index += count
    position += UInt64(count)
  }

  /// Moves the unread bytes to the start of the buffer, and reads a chunk after them. Returns false at the end.
  private func fill() throws -> Bool {
    if isAtEnd { return false }
    buffer.removeSubrange(..<index)
    index = 0
    let start = buffer.count
    buffer.append(contentsOf: repeatElement(0, count: Self.chunkSize))
    var count = -1
    repeat {
      // Safety: the buffer has `chunkSize` bytes from `start` on, and is valid for the call.
      count = unsafe buffer.withUnsafeMutableBytes { bytes in
        unsafe read(descriptor, bytes.baseAddress.map { unsafe $0 + start }, Self.chunkSize)
      }
    } while count < 0 && errno == EINTR
    guard count >= 0 else { throw ToolError.system("read", file: path) }
    buffer.removeSubrange((start + count)...)
    isAtEnd = count == 0
    return count > 0
  }
}
