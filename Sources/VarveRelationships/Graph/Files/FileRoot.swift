public import Foundation
public import Varve

/// A directory that edges lead into, by a name that stays the same wherever the directory is.
///
/// On some systems the directory of a program has another path after an update. So an edge has the name of the root and the
/// path from there, and the root is looked for whenever the database is opened.
public struct FileRoot: Hashable, Sendable {
  /// Where a root is.
  public enum Location: Hashable, Sendable {
    /// The directory for what a program keeps for itself, or one in it.
    case applicationSupport(String? = nil)
    /// The directory that programs of a group share, or one in it: on the systems that have such.
    case appGroup(String, String? = nil)
    /// A directory.
    case url(URL)
  }

  /// What edges call it.
  public let name: String
  /// Where it is.
  public let location: Location

  /// A root. `Relationships` refuses an empty name.
  public init(_ name: String, _ location: Location) {
    self.name = ComposedText.of(name)
    self.location = location
  }

  /// A root at a path.
  public init(_ name: String, at path: String) { self.init(name, .url(URL(fileURLWithPath: path, isDirectory: true))) }

  /// Its path, without links; nil where the directory does not exist now.
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
  /// The name of the root of files that are outside of all roots: their paths are absolute.
  static let anywhere = ""

  /// A file by its absolute path: for domains that say `allowsFilesAnywhere`.
  public static func file(at url: URL) -> EdgeEnd { .file(root: anywhere, path: url.standardizedFileURL.path) }
}

/// What became of a file that was to go, or why nothing did.
public struct FileReport: Sendable, CustomStringConvertible {
  /// What became of it.
  public enum Outcome: Sendable {
    /// It was removed.
    case removed
    /// It stays: it is not the file any more that it was when its last edge went, or could not be looked at then.
    case changed
    /// It stays: there is a link on its path.
    case outsideOfRoot
    /// It stays until its root is there, or is declared.
    case rootMissing
    /// It could not be removed. It is tried again when the database is opened, and with the next file that is to go.
    case failed(String)
  }

  /// The name of the root.
  public let root: String
  /// The path from there.
  public let path: String
  /// What became of it.
  public let outcome: Outcome

  /// The file and what became of it, as a sentence.
  public var description: String {
    let file = "file \"\(path)\"" + (root.isEmpty ? "" : " of root \"\(root)\"")
    return switch outcome {
    case .removed: "\(file) was removed"
    case .changed: "\(file) stays: it is not known to be the one that it was when its last edge went"
    case .outsideOfRoot: "\(file) stays: there is a link on its path"
    case .rootMissing: "\(file) stays: its root is not there, or not declared"
    case .failed(let reason): "\(file) could not be removed: \(reason)"
    }
  }
}
