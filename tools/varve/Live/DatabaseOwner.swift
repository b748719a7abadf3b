import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The user whose permissions a command has that changes a database.
///
/// A file that the system's administrator makes in a database of another user can't be opened by that user's programs,
/// and a link that this user puts in the way leads the administrator's command to a file that the user could not write.
/// So such a command gives its permissions up.
enum DatabaseOwner {
  /// If this process is the administrator's, and a directory belongs to another user, takes that user and its groups
  /// for the rest of the process. Does nothing if the directory does not exist.
  static func assume(of directory: String) throws {
    guard geteuid() == 0 else { return }
    var found = stat()
    guard unsafe stat(directory, &found) == 0, found.st_uid != 0 else { return }
    let name = unsafe getpwuid(found.st_uid).flatMap { unsafe String(validatingCString: $0.pointee.pw_name) }
    #if canImport(Darwin)
      let group = Int32(bitPattern: found.st_gid)
    #else
      let group = found.st_gid
    #endif
    // The groups are set first: a user can't.
    var groups = [found.st_gid]
    let hasGroups = unsafe name.map { unsafe initgroups($0, group) == 0 } ?? (setgroups(1, &groups) == 0)
    guard hasGroups, setgid(found.st_gid) == 0, setuid(found.st_uid) == 0
    else {
      throw ToolError(
        .cannotOpen, "the command can't act as user \(found.st_uid), to whom the database belongs (errno \(errno))",
        file: directory)
    }
  }
}
