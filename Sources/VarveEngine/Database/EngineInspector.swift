/// Prints what is in the files of a database: the door of `varve dump`, over the renderers that the tests
/// compare with.
///
/// The database need not be whole, and may be open elsewhere: nothing is locked and nothing is written.
/// A file is known by its name, as the engine gives it.
public enum EngineInspector {
  /// Prints a table, a record a line. With `verify` every checksum, order and count is compared as well.
  ///
  /// Throws `.corruption` with the byte where the file is damaged; the lines before it were printed.
  public static func dumpTable(at path: String, verify: Bool, line: (String) -> Void) throws(EngineError) {
    guard case .table(let number) = try name(of: path) else {
      throw EngineError(.invalidArgument, "a table's name is a number and .sst", file: path)
    }
    let file = try open(path)
    defer { file.close() }
    let reader = try TableReader.open(
      file: file, number: number, fileSize: try file.size(), cache: BlockCache(capacity: cacheSize))
    try TableDump.run(reader, .all, line)
    if verify { try reader.verify() }
  }

  /// Prints a segment of the log, a record a line. With `verify` damage behind the last readable record is
  /// looked for as well.
  ///
  /// Throws like `dumpTable`.
  public static func dumpLog(at path: String, verify: Bool, line: (String) -> Void) throws(EngineError) {
    let number: FileNumber
    switch try name(of: path) {
    case .log(let found), .pooledLog(let found): number = found
    default: throw EngineError(.invalidArgument, "a log segment's name is a number and .log or .pool", file: path)
    }
    let file = try open(path)
    defer { file.close() }
    try LogDump.render(file, number: number, name: path, verify: verify, line: line)
  }

  /// Prints the VersionEdits of a MANIFEST, or of the one that a database's CURRENT names.
  ///
  /// Every checksum is compared in any case. Throws like `dumpTable`.
  public static func dumpManifest(at path: String, line: (String) -> Void) throws(EngineError) {
    let fileSystem = EngineEnvironment.system.fileSystem
    guard let attributes = try fileSystem.attributes(path) else {
      throw EngineError(.notFound, "there is nothing here", file: path)
    }
    var manifest = path
    if attributes.isDirectory {
      let number = try Manifest.currentNumber(directory: path, fileSystem: fileSystem)
      manifest = path + "/" + FileName.manifest(number).name
    }
    guard case .manifest(let number) = try name(of: manifest) else {
      throw EngineError(.invalidArgument, "a MANIFEST's name is MANIFEST- and a number", file: manifest)
    }
    let file = try open(manifest)
    defer { file.close() }
    let content = try Manifest.readAll(file)
    for text in ManifestDump.text(content.view, number: number, file: manifest).split(separator: "\n") {
      line(String(text))
    }
    // The rendering shows damage as its last line; here it is an error as well.
    var reader = try ManifestReader(content.view, number: number, file: manifest)
    while try reader.next() != nil {}
  }

  /// A dump reads each block once; the cache holds only what its iterator stands on.
  private static let cacheSize = 8 << 20

  private static func name(of path: String) throws(EngineError) -> FileName {
    let last = path.split(separator: "/").last.map(String.init) ?? path
    guard let name = FileName(last) else {
      throw EngineError(.invalidArgument, "the engine gives no file the name \(last)", file: path)
    }
    return name
  }

  private static func open(_ path: String) throws(EngineError) -> any File {
    try EngineEnvironment.system.fileSystem.openFile(path, writable: false)
  }
}
