/// Checks the path of a file relative to its root.
enum FilePath {
  static let sizeMaximum = 4_096
  /// The maximum size of a path component, as file systems allow.
  static let partSizeMaximum = 255

  /// Returns the reason why no edge may lead to a path, or nil if one may. This checks that the path stays within its
  /// root without accessing the file system; links are checked before a file is removed.
  static func refusal(_ path: String, anywhere: Bool) -> String? {
    if path.isEmpty { return "leads to no path" }
    if path.utf8.count > sizeMaximum {
      return "leads to a path of \(path.utf8.count) bytes; at most \(sizeMaximum) are possible"
    }
    if path.utf8.contains(0) { return "leads to a path with U+0000 in it" }
    if path.hasPrefix("/") != anywhere {
      return anywhere
        ? "leads to a path without a root, which has to be absolute"
        : "leads to an absolute path; paths begin at their root"
    }
    let parts = path.dropFirst(anywhere ? 1 : 0).split(separator: "/", omittingEmptySubsequences: false)
    if let part = parts.first(where: { $0.utf8.count > partSizeMaximum }) {
      return "leads to a path with a part of \(part.utf8.count) bytes; at most \(partSizeMaximum) are possible"
    }
    if parts.contains("..") { return "leads to a path with \"..\" in it, which may leave its root" }
    if parts.contains("") || parts.contains(".") { return "leads to a path with an empty part or \".\" in it" }
    return nil
  }
}
