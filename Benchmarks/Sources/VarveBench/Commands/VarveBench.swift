import ArgumentParser

/// `varve-bench` measures Varve and its peers with the same workloads.
@main
struct VarveBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "varve-bench",
    abstract: "Measures Varve and its peers under the workloads of db_bench and YCSB.",
    discussion: """
      Example: varve-bench fillrandom,waitforcompaction,readrandom --engine varve --engine rocksdb --num 5000000
      All options: varve-bench help run. The comparison with every peer: varve-bench compare.
      """,
    subcommands: [
      RunCommand.self, CompareCommand.self, CodersCommand.self, ExtensionsCommand.self, FollowCommand.self,
      FollowWriterCommand.self, DamagedCommand.self, ChildCommand.self,
    ],
    defaultSubcommand: RunCommand.self
  )
}
