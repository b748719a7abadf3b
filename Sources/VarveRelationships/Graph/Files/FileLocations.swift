internal import Foundation
internal import Synchronization
internal import Varve

/// Where the roots of a domain are, since the database was opened, and what is held while files go.
final class FileLocations: Sendable {
  private let roots: [String: String]
  private let declared: Set<String>
  let allowsAnywhere: Bool
  /// How many need the files where they are. Held for as long as files are moved away, and for nothing that waits.
  private let holds = Mutex(0)

  /// Runs `body` while no other moves files away, or begins to need them. It is given whether some need them.
  func holding<Result>(_ body: (_ isHeld: Bool) throws -> Result) rethrows -> Result {
    try holds.withLock { holds in try body(holds > 0) }
  }

  /// Files stay where they are until `release`.
  func hold() { holds.withLock { $0 += 1 } }
  func release() { holds.withLock { $0 -= 1 } }

  /// Throws `.invalidDefinition` where one root is in another.
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
    // By a link one file would have several paths, and so several ends.
    guard directory == Self.parent(whole) else { return .outsideOfRoot }
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
        .invalidArgument,
        "an edge leads to the file \"\(path)\", and there is a link on the way from root \"\(root)\": a file has one path"
      )
    }
  }
}
