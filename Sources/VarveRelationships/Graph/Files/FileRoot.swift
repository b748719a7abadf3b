public import Foundation
internal import Varve

/// A directory with files of edges, identified by a name that is independent of its path.
///
/// On some systems, the directory of a program has another path after an update. So an edge stores the name of the root
/// and the path relative to it, and the root is located whenever the database is opened.
public struct FileRoot: Hashable, Sendable {
  /// The location of a root.
  public enum Location: Hashable, Sendable {
    /// The directory for the program's own data, or a folder in it.
    case applicationSupport(String? = nil)
    /// The directory that programs of a group share, or a folder in it, on systems that support it.
    case appGroup(String, String? = nil)
    /// A directory by its URL.
    case url(URL)
  }

  /// The name by which edges refer to the root.
  public let name: String
  /// The location of the root.
  public let location: Location

  /// Creates a root. `Relationships` refuses an empty name.
  public init(_ name: String, _ location: Location) {
    self.name = ComposedText.of(name)
    self.location = location
  }

  /// Creates a root at a path.
  public init(_ name: String, at path: String) { self.init(name, .url(URL(fileURLWithPath: path, isDirectory: true))) }

  /// Returns the path of the root with links resolved, or nil if the directory does not exist at present.
  func resolved() -> String? {
    guard let path = url?.path else { return nil }
    guard let real = SystemFile.realPath(path), SystemFile.isDirectory(real) else { return nil }
    return real
  }

  private var url: URL? {
    switch location {
    case .url(let url): url
    case .applicationSupport(let folder):
      FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
        .map { Self.child(of: $0, folder) }
    case .appGroup(let group, let folder):
      Self.container(of: group).map { Self.child(of: $0, folder) }
    }
  }

  private static func child(of url: URL, _ folder: String?) -> URL {
    folder.map { url.appendingPathComponent($0, isDirectory: true) } ?? url
  }

  private static func container(of group: String) -> URL? {
    #if canImport(Darwin)
      FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: group)
    #else
      nil
    #endif
  }
}

extension EdgeEnd {
  /// The root name of files outside all roots, whose paths are absolute.
  static let anywhere = ""

  /// Returns the end of a file by its absolute path, for domains with `allowsFilesAnywhere`.
  public static func file(at url: URL) -> EdgeEnd { .file(root: anywhere, path: url.standardizedFileURL.path) }
}

/// The outcome for a file that was to be removed.
public struct FileReport: Sendable, CustomStringConvertible {
  /// The outcome of a removal.
  public enum Outcome: Sendable {
    /// The file was removed.
    case removed
    /// The file was kept because it is no longer the same as when its last edge was removed, or could not be examined
    /// then.
    case changed
    /// The file was kept because there is a link on its path.
    case outsideOfRoot
    /// The file is kept until its root exists and is declared.
    case rootMissing
    /// The file could not be removed. Removal is tried again when the database is opened, and with the next released
    /// file.
    case failed(String)
  }

  /// The name of the root.
  public let root: String
  /// The path relative to the root.
  public let path: String
  /// The outcome for the file.
  public let outcome: Outcome

  /// The file and its outcome as a sentence.
  public var description: String {
    let file = "file \"\(path)\"" + (root.isEmpty ? "" : " of root \"\(root)\"")
    return switch outcome {
    case .removed: "\(file) was removed"
    case .changed: "\(file) stays: it is not known to be the one that it was when its last edge was removed"
    case .outsideOfRoot: "\(file) stays: there is a link on its path"
    case .rootMissing: "\(file) stays: its root is not there, or not declared"
    case .failed(let reason): "\(file) could not be removed: \(reason)"
    }
  }
}
