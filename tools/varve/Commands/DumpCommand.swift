import ArgumentParser
import Varve
import VarveEngine
import VarveInspection

/// Prints every record of a file as text.
struct DumpCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "dump",
    abstract: "Print every record of a file of a database, or of its catalog.",
    discussion: """
      The output is the text that the engine's tests compare. A dump of a file reads only this file: the rest of the \
      database may be missing or damaged, and the database may be open.

      Example: varve dump sst /data/example.varve/000012.sst --verify
      """,
    subcommands: [Table.self, Log.self, Manifest.self, Catalog.self]
  )

  /// The options of every kind of dump.
  struct Options: ParsableArguments {
    @Flag(help: "Check every checksum, order and count as well; exit status 1 where damage is found.")
    var verify = false
    @OptionGroup var output: OutputOption

    /// Prints each line of a rendering. Lines before damage are printed.
    func print(_ render: (_ line: (String) -> Void) throws -> Void) throws {
      let sink = try ByteSink.standardOutput()
      var failure: (any Error)?
      do {
        try render { line in
          guard failure == nil else { return }
          do { try writeLine(line, to: sink) } catch { failure = error }
        }
      } catch let error as EngineError where verify && error.code == .corruption {
        try sink.finish()
        StandardError.write(output.json ? JSONText.line(FaultRow(error)) + "\n" : "varve: \(error)\n")
        throw ExitStatus.answerIsNo.asError
      }
      if let failure { throw failure }
      try sink.finish()
    }

    private func writeLine(_ line: String, to sink: ByteSink) throws {
      if output.json { try sink.writeJSON(["text": line]) } else { try sink.writeLine(line) }
    }
  }

  struct Table: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "sst", abstract: "Print a table: footer, properties, index, blocks, entries.",
      discussion: "Example: varve dump sst /data/example.varve/000012.sst")

    @Argument(help: "The table's file.", completion: .file()) var file: String
    @OptionGroup var options: Options

    func run() throws {
      try options.print { line in try EngineInspector.dumpTable(at: file, verify: options.verify, line: line) }
    }
  }

  struct Log: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "log", abstract: "Print a segment of the write-ahead log: header, records, entries.",
      discussion: "Example: varve dump log /data/example.varve/000007.log --verify")

    @Argument(help: "The segment's file.", completion: .file()) var file: String
    @OptionGroup var options: Options

    func run() throws {
      try options.print { line in try EngineInspector.dumpLog(at: file, verify: options.verify, line: line) }
    }
  }

  struct Manifest: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "manifest", abstract: "Print the VersionEdits of a MANIFEST.",
      discussion: "Example: varve dump manifest /data/example.varve")

    @Argument(help: "The database, whose CURRENT names the file, or a MANIFEST.", completion: .file())
    var path: String
    @OptionGroup var options: Options

    func run() throws {
      try options.print { line in try EngineInspector.dumpManifest(at: path, verify: options.verify, line: line) }
    }
  }

  struct Catalog: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "catalog",
      abstract: "Print the catalog of a database of objects: collections, shapes, versions, extensions, settings.",
      discussion: """
        A row that is damaged is reported on standard error, those after it are printed, and the exit status is 1.

        Example: varve dump catalog /data/example.varve
        """)

    @OptionGroup var database: DatabaseArgument
    @OptionGroup var output: OutputOption

    func run() throws {
      let faults = RowFaults(asJSON: output.json)
      let sink = try ByteSink.standardOutput()
      try database.inspecting { inspector in
        try inspector.dumpCatalog { line in
          if output.json { try sink.writeJSON(["text": line]) } else { try sink.writeLine(line) }
        } fault: {
          faults.report($0)
        }
      }
      try sink.finish()
      try faults.finish()
    }
  }
}
