import Foundation

/// The bytes of an engine's directory, sorted by what its files are.
struct DirectoryUsage {
  var tableBytes: UInt64 = 0
  var logBytes: UInt64 = 0
  var otherBytes: UInt64 = 0

  /// Allocated bytes where a file is sparse (LMDB's never is here), else its size.
  init(path: String, use: (String) -> FileUse) {
    guard let names = FileManager.default.enumerator(atPath: path) else { return }
    for case let name as String in names {
      var status = stat()
      guard lstat(path + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { continue }
      let size = UInt64(min(Int64(status.st_size), max(Int64(status.st_blocks) * 512, 0)))
      switch use((name as NSString).lastPathComponent) {
      case .table: tableBytes += size
      case .log: logBytes += size
      case .other: otherBytes += size
      }
    }
  }
}
