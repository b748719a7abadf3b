/// Looks into single files of a database, without opening it: what `varve dump` prints.
///
/// Every function hands its text line by line to `line`, and throws `.corruption` with the place where
/// bytes are not what was written there. Nothing is changed or locked.
public enum EngineInspector {
  /// A table, block by block. With `verify` every checksum, order and count is checked, too.
  public static func dumpTable(
    at path: String, verify: Bool = false, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let (file, name) = try open(path, environment)
    defer { file.close() }
    guard case .table(let number) = name else { throw wrongName(path, "a table, NNNNNN.sst") }
    let cache = BlockCache(capacity: 1 << 20)
    let table = try TableReader.open(file: file, number: number, fileSize: try file.size(), cache: cache)
    try TableDump.run(table, .all, line)
    if verify { try table.verify() }
  }

  /// A segment of the log, record by record. With `verify` damage behind its end is looked for, too.
  public static func dumpLog(
    at path: String, verify: Bool = false, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let (file, name) = try open(path, environment)
    defer { file.close() }
    guard case .log(let number) = name else { throw wrongName(path, "a log segment, NNNNNN.log") }
    try LogDump.render(file, number: number, name: path, verify: verify, line: line)
  }

  /// The MANIFEST in force of the database in a directory, edit by edit.
  public static func dumpManifest(
    at directory: String, verify: Bool = false, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let number = try Manifest.currentNumber(directory: directory, fileSystem: environment.fileSystem)
    let path = directory + "/" + FileName.manifest(number).name
    let file = try environment.fileSystem.openFile(path, writable: false)
    defer { file.close() }
    let bytes = try Manifest.readAll(file)
    for text in try ManifestDump.text(bytes.view, number: number, file: path).split(separator: "\n") { line(String(text)) }
  }

  private static func open(
    _ path: String, _ environment: EngineEnvironment
  ) throws(EngineError) -> (any File, FileName?) {
    let name = path.split(separator: "/").last.flatMap { FileName(String($0)) }
    return (try environment.fileSystem.openFile(path, writable: false), name)
  }

  private static func wrongName(_ path: String, _ wanted: String) -> EngineError {
    EngineError(.invalidArgument, "the file's name is not that of \(wanted)", file: path)
  }
}
