import Foundation

/// The bytes of an engine's directory, by the use of its files.
struct DirectoryUsage {
  var tableBytes: UInt64 = 0
  var logBytes: UInt64 = 0
  var otherBytes: UInt64 = 0

  /// Measures a directory: the allocated bytes of a sparse file (LMDB's never is here), and otherwise its size.
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
