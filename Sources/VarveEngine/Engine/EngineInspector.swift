/// Prints single files of a database without opening the database. `varve dump` uses it.
///
/// Every function passes its text line by line to `line`, and throws `.corruption` with file and offset if it finds
/// damage. It changes and locks nothing.
public enum EngineInspector {
  /// Prints a table, block by block. With `verify` every checksum, order and count is checked, too.
  public static func dumpTable(
    at path: String, verify: Bool, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let (file, name) = try open(path, environment)
    defer { file.close() }
    guard case .table(let number) = name else { throw wrongName(path, "a table, NNNNNN.sst") }
    let cache = BlockCache(capacity: 1 << 20)
    let table = try TableReader.open(file: file, number: number, fileSize: try file.size(), cache: cache)
    try TableDump.run(table, .all, line)
    if verify { try table.verify() }
  }

  /// Prints a log segment, record by record. With `verify`, it also searches for damage after the end of the records.
  public static func dumpLog(
    at path: String, verify: Bool, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let (file, name) = try open(path, environment)
    defer { file.close() }
    let number: FileNumber
    switch name {
    case .log(let found), .pooledLog(let found): number = found
    default: throw wrongName(path, "a log segment, NNNNNN.log or NNNNNN.pool")
    }
    try LogDump.render(file, number: number, name: path, verify: verify, line: line)
  }

  /// Prints a MANIFEST, edit by edit: the file itself, or that of a database's directory, named by its CURRENT. Every
  /// checksum is checked in any case.
  public static func dumpManifest(
    at path: String, verify: Bool, environment: EngineEnvironment = .system, line: (String) -> Void
  ) throws(EngineError) {
    let fileSystem = environment.fileSystem
    guard let attributes = try fileSystem.attributes(path) else {
      throw EngineError(.notFound, "there is nothing here", file: path)
    }
    var path = path
    if attributes.isDirectory {
      path += "/" + FileName.manifest(try Manifest.currentNumber(directory: path, fileSystem: fileSystem)).name
    }
    let (file, name) = try open(path, environment)
    defer { file.close() }
    guard case .manifest(let number) = name else { throw wrongName(path, "a MANIFEST, MANIFEST-NNNNNN") }
    let bytes = try Manifest.readAll(file)
    for text in ManifestDump.text(bytes.view, number: number, file: path).split(separator: "\n") { line(String(text)) }
    // The text shows damage in its last line; this loop throws it as an error as well.
    var reader = try ManifestReader(bytes.view, number: number, file: path)
    while try reader.next() != nil {}
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
