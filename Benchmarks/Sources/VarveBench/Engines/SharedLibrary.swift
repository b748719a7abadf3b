import Foundation

/// Information about the build of a peer's library: the file that is mapped into this process, and whether it calls
/// `__assert_fail`, as a library compiled without NDEBUG does.
struct SharedLibrary {
  let path: String
  let hasAssertions: Bool

  /// - Parameter prefix: the beginning of the file's name, such as `librocksdb`.
  init?(loadedAs prefix: String) {
    guard let maps = readProcFile("/proc/self/maps") else { return nil }
    let paths = maps.split(separator: "\n").compactMap { line in
      line.firstIndex(of: "/").map { String(line[$0...]) }
    }
    guard let found = paths.first(where: { ($0 as NSString).lastPathComponent.hasPrefix(prefix) }) else { return nil }
    path = found
    let bytes = try? Data(contentsOf: URL(fileURLWithPath: found), options: .alwaysMapped)
    hasAssertions = bytes?.range(of: Data("__assert_fail".utf8)) != nil
  }

  /// The version from the library's file name: `7.8.3` of `librocksdb.so.7.8.3`.
  var versionInName: String {
    let name = (path as NSString).lastPathComponent
    return name.range(of: ".so.").map { String(name[$0.upperBound...]) } ?? name
  }

  var note: String { hasAssertions ? "assertions on" : "no assertions" }
}
