import Foundation

/// A Debian package index: stanzas of `Field: value` lines, separated by blank lines.
struct PackageIndex {
  /// Each stanza, whole, under `package/version`.
  struct Stanza {
    let key: [UInt8]
    let bytes: ArraySlice<UInt8>
  }

  private let bytes: [UInt8]

  init(contentsOf path: String) throws {
    bytes = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
  }

  var byteCount: Int { bytes.count }

  /// Calls `body` with each stanza that names a package and a version, in the order of the file.
  func forEach(_ body: (Stanza) throws -> Void) throws {
    var start = 0
    var package: ArraySlice<UInt8> = []
    var version: ArraySlice<UInt8> = []
    func end(_ index: Int) throws {
      defer {
        package = []
        version = []
      }
      guard !package.isEmpty, !version.isEmpty else { return }
      try body(Stanza(key: Array(package) + [0x2f] + Array(version), bytes: bytes[start..<index]))
    }
    var line = 0
    while line < bytes.count {
      let newline = bytes[line...].firstIndex(of: 0x0a) ?? bytes.count
      if newline == line {
        try end(line)
        start = newline + 1
      } else if package.isEmpty, let name = Self.value(of: "Package: ", bytes[line..<newline]) {
        package = name
      } else if version.isEmpty, let name = Self.value(of: "Version: ", bytes[line..<newline]) {
        version = name
      }
      line = newline + 1
    }
    try end(bytes.count)
  }

  private static func value(of field: String, _ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    line.starts(with: field.utf8) ? line.dropFirst(field.utf8.count) : nil
  }
}
