internal import Foundation
internal import Synchronization
internal import Varve

/// Where the roots of a domain are, since the database was opened, and what is held while files go.
final class FilePlaces: Sendable {
  private let roots: [String: String]
  private let declared: Set<String>
  let allowsAnywhere: Bool
  /// Held while files are moved away: by who does that, and by who needs them where they are.
  let lock = Mutex(())

  init(_ definition: Relationships) {
    var roots: [String: String] = [:]
    for root in definition.roots { roots[root.name] = root.resolved() }
    self.roots = roots
    declared = Set(definition.roots.map(\.name))
    allowsAnywhere = definition.allowsFilesAnywhere
  }

  /// Where a file is.
  enum Location: Equatable {
    case at(path: String, trash: [String])
    case rootMissing
    case outsideOfRoot
  }

  /// Where a file is, with links followed to its directory; and where it may be moved to before it is removed: beside its
  /// root, or in it where that is another volume.
  func location(_ root: String, _ path: String) -> Location {
    if root == EdgeEnd.anywhere {
      guard allowsAnywhere else { return .rootMissing }
      return .at(path: path, trash: [Self.parent(path) + "/.varve-trash"])
    }
    guard let base = roots[root] else { return .rootMissing }
    let whole = base + "/" + path
    // Where the directory is not there, the file is not either.
    guard let directory = SystemFile.realPath(Self.parent(whole)) else { return .at(path: whole, trash: []) }
    guard directory == base || directory.hasPrefix(base == "/" ? "/" : base + "/") else { return .outsideOfRoot }
    let name = whole.split(separator: "/").last.map(String.init) ?? ""
    return .at(path: directory + "/" + name, trash: Self.trash(of: base))
  }

  static func trash(of root: String) -> [String] {
    let name = root.split(separator: "/").last.map(String.init) ?? ""
    let beside = "\(parent(root))/.\(name).varve-trash"
    return (root == "/" ? [] : [beside]) + ["\(root)/.varve-trash"]
  }

  /// All directories that files are moved to.
  var trashes: [String] { roots.values.flatMap { Self.trash(of: $0) } }

  private static func parent(_ path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// Throws `.invalidArgument` where no edge may lead to a file.
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
        .invalidArgument, "an edge leads to the file \"\(path)\", and links lead from there out of root \"\(root)\"")
    }
  }
}
