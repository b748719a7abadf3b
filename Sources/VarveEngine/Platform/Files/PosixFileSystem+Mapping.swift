internal import CVarve
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Detection of whether a file may be overwritten through a mapping.
///
/// A store through a mapping can't report an error: if the file system has to allocate a block for it and can't, the
/// process is killed by SIGBUS. So the log is mapped only if blocks that were written once are overwritten in place.
/// Two checks must agree, the type of the file system and a probe:
///
/// | file system | in place |
/// |---|---|
/// | ext2, ext3, ext4 | yes |
/// | tmpfs | yes |
/// | XFS | if its geometry says that it was made without reflinks; no if it doesn't say |
/// | all others, overlayfs among them | no |
extension PosixFileSystem {
  private static let extType: UInt64 = 0xef53
  private static let tmpfsType: UInt64 = 0x0102_1994
  private static let xfsType: UInt64 = 0x5846_5342
  private static let probeCount = Atomic<UInt64>(0)
  private static let probeSize = 16_384

  /// Returns whether files below the directory `path` are overwritten in place.
  public func supportsMapping(_ path: String) -> Bool {
    guard mapsFiles, overwritesInPlace(path) else { return false }
    do throws(EngineError) { return try mappingIsCoherent(path) } catch { return false }
  }

  private func overwritesInPlace(_ path: String) -> Bool {
    guard let descriptor = try? open(path, O_RDONLY) else { return false }
    defer { _ = close(descriptor) }
    var type: UInt64 = 0
    guard unsafe cvarve_file_system_type(descriptor, &type) == 0 else { return false }
    switch type {
    case Self.extType, Self.tmpfsType: return true
    case Self.xfsType: return cvarve_xfs_shares_blocks(descriptor) == 0
    default: return false
    }
  }

  /// Returns whether a mapping and the file's own reads and writes share the same bytes. The check uses a file whose
  /// name is removed before anything is written to it, so that no crash leaves it.
  private func mappingIsCoherent(_ directory: String) throws(EngineError) -> Bool {
    let number = Self.probeCount.add(1, ordering: .relaxed).newValue
    let path = "\(directory)/.varve-probe-\(getpid())-\(number)"
    let file = try createFile(path)
    defer { file.close() }
    try remove(path)
    var pattern = [UInt8](repeating: 0, count: Self.probeSize)
    try file.write(pattern, at: 0)
    let mapping = try file.map(size: Self.probeSize)
    for index in pattern.indices { pattern[index] = UInt8(truncatingIfNeeded: index &* 31 &+ 7) }
    // The bytes are stored through the mapping and read from the file.
    pattern.withByteView { mapping.store(at: 0, bytes: $0) }
    var read = [UInt8](repeating: 0, count: Self.probeSize)
    guard try file.read(into: &read, at: 0) == Self.probeSize, read == pattern else { return false }
    // The bytes are written to the file and read from the mapping.
    pattern.reverse()
    try file.write(pattern, at: 0)
    return mapping.view(0, count: Self.probeSize).bytes == pattern
  }
}

extension File {
  /// Writes the bytes of an array.
  func write(_ bytes: [UInt8], at offset: UInt64) throws(EngineError) {
    try bytes.withByteView { (view) throws(EngineError) in try unsafe write(view.buffer, at: offset) }
  }

  /// Fills an array, up to the end of the file. Returns the number of bytes read.
  func read(into bytes: inout [UInt8], at offset: UInt64) throws(EngineError) -> Int {
    var result: Result<Int, EngineError> = .success(0)
    unsafe bytes.withUnsafeMutableBytes { buffer in
      do throws(EngineError) { result = .success(try unsafe read(into: buffer, at: offset)) } catch {
        result = .failure(error)
      }
    }
    return try result.get()
  }
}
