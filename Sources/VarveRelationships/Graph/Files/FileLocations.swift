internal import Foundation
internal import Synchronization
internal import Varve

/// The locations of a domain's roots, as of the open of the database, and the lock for removing files.
final class FileLocations: Sendable {
  private let roots: [String: String]
  private let declared: Set<String>
  let allowsAnywhere: Bool
  /// The number of callers that need the files at their locations. The lock is held while files are moved, but never
  /// while waiting.
  private let holds = Mutex(0)

  /// Runs `body` while no other caller moves files or begins to need them. `isHeld` is true if callers need the files.
  func holding<Result>(_ body: (_ isHeld: Bool) throws -> Result) rethrows -> Result {
    try holds.withLock { holds in try body(holds > 0) }
  }

  /// Keeps files at their locations until `release`.
  func hold() { holds.withLock { $0 += 1 } }
  func release() { holds.withLock { $0 -= 1 } }

  /// Resolves the roots. Throws `.invalidDefinition` if one root is inside another.
  init(_ definition: Relationships) throws {
    var roots: [String: String] = [:]
    for root in definition.roots { roots[root.name] = root.resolved() }
    for (name, path) in roots {
      guard let inner = roots.first(where: { $0.key != name && ($0.value + "/").hasPrefix(path + "/") }) else {
        continue
      }
      throw DatabaseError(
        .invalidDefinition,
        "root \"\(inner.key)\" is in root \"\(name)\": a file would have two paths, and go with the last edge by one of them"
      )
    }
    self.roots = roots
    declared = Set(definition.roots.map(\.name))
    allowsAnywhere = definition.allowsFilesAnywhere
  }

  /// The location of a file.
  enum Location: Equatable {
    case at(path: String, trash: [String])
    case rootMissing
    case outsideOfRoot
  }

  /// Returns the location of a file, with the links of its directory resolved, and the directories to which it may be
  /// moved before it is removed: next to its root, or in the root if the former is on another volume.
  func location(_ root: String, _ path: String) -> Location {
    if root == EdgeEnd.anywhere {
      guard allowsAnywhere else { return .rootMissing }
      return .at(path: path, trash: [Self.parent(path) + "/.varve-trash"])
    }
    guard let base = roots[root] else { return .rootMissing }
    let whole = base + "/" + path
    // If the directory does not exist, neither does the file.
    guard let directory = SystemFile.realPath(Self.parent(whole)) else { return .at(path: whole, trash: []) }
    // With links, one file would have several paths, and so several ends.
    guard directory == Self.parent(whole) else { return .outsideOfRoot }
    let name = whole.split(separator: "/").last.map(String.init) ?? ""
    return .at(path: directory + "/" + name, trash: Self.trash(of: base))
  }

  static func trash(of root: String) -> [String] {
    let name = root.split(separator: "/").last.map(String.init) ?? ""
    let beside = "\(parent(root))/.\(name).varve-trash"
    return (root == "/" ? [] : [beside]) + ["\(root)/.varve-trash"]
  }

  /// All directories to which files are moved.
  var trashes: [String] { roots.values.flatMap { Self.trash(of: $0) } }

  private static func parent(_ path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// Throws `.invalidArgument` if no edge may lead to a file.
  func check(_ root: String, _ path: String) throws {
    if root == EdgeEnd.anywhere {
      guard allowsAnywhere else {
        throw DatabaseError(
          .invalidArgument,
          "an edge leads to the file \"\(path)\" by an absolute path; declare a root, or say `allowsFilesAnywhere`")
      }
      return
    }
    guard declared.contains(root) else {
      throw DatabaseError(
        .invalidArgument,
        "an edge leads to a file of root \"\(root)\"; the domain declares "
          + (declared.isEmpty ? "none" : declared.sorted().map { "\"\($0)\"" }.joined(separator: ", ")))
    }
    if location(root, path) == .outsideOfRoot {
      throw DatabaseError(
        .invalidArgument,
        "an edge leads to the file \"\(path)\", and there is a link on the way from root \"\(root)\": a file has one path"
      )
    }
  }
}
