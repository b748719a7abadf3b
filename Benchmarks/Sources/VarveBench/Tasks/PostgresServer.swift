#if PostgreSQL
  import Foundation

  /// A PostgreSQL server for one directory, which is reached by a socket in the directory.
  ///
  /// Its programs are those of the path, or of Debian's package.
  final class PostgresServer: Sendable {
    private let directory: String
    private let programs: String
    var connection: String { "host=\(directory) user=varve dbname=postgres" }

    /// A commit survives the death of the server, as those of the other engines survive that of the process: it is in
    /// the page cache of the operating system, and is not synced. Memory and log are as large as those of the other
    /// engines.
    private static let settings = [
      "fsync=off", "synchronous_commit=on", "full_page_writes=off", "shared_buffers=512MB", "max_wal_size=4GB",
      "listen_addresses=",
    ]

    init(directory: String) throws {
      self.directory = directory
      programs = try Self.findPrograms()
      if !FileManager.default.fileExists(atPath: directory + "/PG_VERSION") {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try Self.giveToServersUser(directory)
        try run("initdb", ["-D", directory, "-U", "varve", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"])
      }
      let options = Self.settings.map { "-c '\($0)'" } + ["-k '\(directory)'"]
      try run(
        "pg_ctl",
        ["-D", directory, "-w", "-s", "-l", directory + "/server.log", "-o", options.joined(separator: " "), "start"])
    }

    func stop() throws { try run("pg_ctl", ["-D", directory, "-w", "-s", "-m", "fast", "stop"]) }

    /// Ends the server of a directory at once, as a crash does: the next start replays its log.
    static func kill(directory: String) throws {
      try run(findPrograms(), "pg_ctl", ["-D", directory, "-w", "-s", "-m", "immediate", "stop"])
    }

    private static func findPrograms() throws -> String {
      var directories = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
      let packages = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
      directories += packages.sorted().reversed().map { "/usr/lib/postgresql/\($0)/bin" }
      let found = directories.first { directory in
        ["initdb", "pg_ctl", "postgres"].allSatisfy {
          FileManager.default.isExecutableFile(atPath: directory + "/" + $0)
        }
      }
      guard let found else { throw EngineFailure("PostgreSQL's server is not installed (package postgresql)") }
      return found
    }

    /// The user that runs the server, because PostgreSQL refuses to run as root.
    private static let otherUser = geteuid() == 0 ? "postgres" : nil

    private static func giveToServersUser(_ directory: String) throws {
      guard let otherUser else { return }
      guard let user = getpwnam(otherUser), chown(directory, user.pointee.pw_uid, user.pointee.pw_gid) == 0 else {
        throw EngineFailure("\(directory) can't be given to the user \(otherUser): \(String(cString: strerror(errno)))")
      }
    }

    private func run(_ program: String, _ arguments: [String]) throws { try Self.run(programs, program, arguments) }

    /// Runs a program without Foundation's `Process`, whose wait would last until the server, which inherits its
    /// socket, has ended.
    private static func run(_ programs: String, _ program: String, _ arguments: [String]) throws {
      var command = [programs + "/" + program] + arguments
      if let user = otherUser {
        command = ["/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups"] + command
      }
      let texts = command.map { strdup($0) } + [nil]
      defer { for text in texts { free(text) } }
      var files = posix_spawn_file_actions_t()
      posix_spawn_file_actions_init(&files)
      defer { posix_spawn_file_actions_destroy(&files) }
      posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0)
      var process: pid_t = 0
      let error = posix_spawn(&process, command[0], &files, nil, texts, environ)
      guard error == 0 else {
        throw EngineFailure("\(command[0]) can't be started: \(String(cString: strerror(error)))")
      }
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
      guard status == 0 else { throw EngineFailure("\(program) \(arguments.last ?? "") failed with status \(status)") }
    }
  }
#endif
