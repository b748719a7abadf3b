import ArgumentParser
import VarveEngine

/// The command-line tool `varve`, which inspects, changes and checks a database.
///
/// The exit status is part of the interface: 0 success, 1 negative answer (an absent key, or damage that was found), 2
/// usage, 3 the database or a file can't be opened, read or written. `ExitStatus` maps errors to these.
@main
struct VarveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "varve",
    abstract: "Inspect, change, compact and check a Varve database.",
    discussion: """
      A database is a directory. Commands open it read-only unless they must write; a path that does \
      not exist is an error, and only put and load make a database there, with --create.

      Exit status: 0 good, 1 the answer is no (key absent, damage found), 2 usage, 3 can't open, read \
      or write.

      Example: varve scan /data/example.varve --prefix user: --limit 10
      """,
    version: "0.1.0",
    subcommands: [
      InfoCommand.self, GetCommand.self, PutCommand.self, DeleteCommand.self, ScanCommand.self, LoadCommand.self,
      ExportCommand.self, DumpCommand.self, CompactCommand.self, FlushCommand.self, CheckpointCommand.self,
      BackupCommand.self, VerifyCommand.self, RepairCommand.self, SalvageCommand.self, StatsCommand.self,
      CollectionsCommand.self, ObjectsCommand.self, IndexesCommand.self, ViewsCommand.self, EdgesCommand.self,
      TasksCommand.self, ImportCommand.self,
    ]
  )

  static func main() {
    do {
      var command = try parseAsRoot()
      try command.run()
    } catch {
      ExitStatus.end(with: error, asJSON: CommandLine.arguments.contains("--json"))
    }
  }
}
