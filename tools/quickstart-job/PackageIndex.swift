import Foundation

/// A Debian package index: stanzas of `Field: value` lines, separated by blank lines.
struct PackageIndex {
  private let bytes: [UInt8]

  init(contentsOf path: String) throws {
    bytes = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
  }

  var byteCount: Int { bytes.count }

  /// Calls `body` with each package that has a name and a version, in the order of the file.
  func forEach(_ body: (DebianPackage) throws -> Void) throws {
    var start = 0
    while start < bytes.count {
      var end = start
      while end < bytes.count, bytes[end] != 0x0a {
        end = bytes[end...].firstIndex(of: 0x0a).map { $0 + 1 } ?? bytes.count
      }
      if let package = DebianPackage(stanza: bytes[start..<end]) { try body(package) }
      start = end + 1
    }
  }
}
