@testable import VarveEngine

/// A read-only file of bytes in memory.
///
/// # Safety
/// The view outlives the file, because an input is not moved while its target runs.
@safe
final class BytesFile: File, @unchecked Sendable {
  // Sendable: immutable.
  let path: String
  private let content: ByteView

  init(_ content: ByteView, path: String) {
    self.content = content
    self.path = path
  }

  func size() throws(EngineError) -> UInt64 { UInt64(content.count) }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    guard offset < UInt64(content.count), let target = buffer.baseAddress else { return 0 }
    let count = min(buffer.count, content.count - Int(offset))
    unsafe target.copyMemory(from: content.base + Int(offset), byteCount: count)
    return count
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) { throw refusal }
  func truncate(to size: UInt64) throws(EngineError) { throw refusal }
  func sync() throws(EngineError) { throw refusal }
  func startWriteback(offset: UInt64, size: UInt64) {}
  func dropCachedPages(offset: UInt64, size: UInt64) {}
  func map(size: Int) throws(EngineError) -> MappedFile { throw refusal }
  func close() {}

  private var refusal: EngineError { EngineError(.readOnly, "an input is only read", file: path) }
}

/// A directory of files in memory.
final class BytesFileSystem: FileSystem {
  private let files: [BytesFile]

  init(_ files: [BytesFile]) { self.files = files }

  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    guard let file = files.first(where: { $0.path == path }) else {
      throw EngineError(.notFound, "no such file", file: path)
    }
    return file
  }

  func createFile(_ path: String) throws(EngineError) -> any File { throw refusal(path) }
  func lock(_ path: String) throws(EngineError) -> any FileLock { throw refusal(path) }
  func rename(_ path: String, to newPath: String) throws(EngineError) { throw refusal(path) }
  func link(_ path: String, to newPath: String) throws(EngineError) { throw refusal(path) }
  func remove(_ path: String) throws(EngineError) { throw refusal(path) }
  func createDirectory(_ path: String) throws(EngineError) { throw refusal(path) }
  func removeDirectory(_ path: String) throws(EngineError) { throw refusal(path) }
  func list(_ directory: String) throws(EngineError) -> [String] { files.map(\.path) }
  func attributes(_ path: String) throws(EngineError) -> FileAttributes? { nil }
  func syncDirectory(_ path: String) throws(EngineError) { throw refusal(path) }
  func freeSpace(_ path: String) throws(EngineError) -> UInt64 { 0 }
  func supportsMapping(_ path: String) -> Bool { false }

  private func refusal(_ path: String) -> EngineError {
    EngineError(.readOnly, "inputs are only read", file: path)
  }
}
