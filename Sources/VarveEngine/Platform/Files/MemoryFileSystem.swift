internal import Synchronization

/// Files in memory, for tests and for databases in memory.
///
/// Paths begin at one root, with or without a leading slash. Everything survives as long as the object lives, so
/// `sync` does nothing. A mapping and its file share the same bytes.
///
/// # Invariants
/// 1. Each directory has a key in `directories`; its parent has an entry for it. The root is "".
/// 2. A file lives while an entry, an open file or a mapping refers to it. Its bytes are then returned to the budget.
///
/// # Concurrency
/// Safe from any thread. One mutex guards the names; each file has a mutex of its own, taken after it or alone.
public final class MemoryFileSystem: FileSystem {
  enum Entry {
    case file(MemoryContent)
    case directory
  }

  struct Names {
    /// The entries of each directory by name, keyed by the normalized path of the directory.
    var directories: [String: [String: Entry]] = ["": [:]]
    var locked: Set<ObjectIdentifier> = []
  }

  private let budget: MemoryCapacity
  private let names = Mutex(Names())

  /// Creates an empty file system whose files may have `capacity` bytes in total.
  public init(capacity: UInt64 = UInt64(Int64.max)) {
    budget = MemoryCapacity(capacity: min(capacity, UInt64(Int64.max)))
  }

  /// Creates a new file, readable and writable. Throws `.alreadyExists`.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    let content = MemoryContent(budget: budget)
    try update { (names) throws(EngineError) in try names.add(.file(content), at: path) }
    return MemoryFile(path: path, content: content, isWritable: true)
  }

  /// Opens an existing file.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let content = try update { (names) throws(EngineError) in try names.file(path) }
    return MemoryFile(path: path, content: content, isWritable: writable)
  }

  /// Takes the exclusive lock of a file, which is created if it does not exist, or throws `.locked`.
  public func lock(_ path: String) throws(EngineError) -> any FileLock {
    let content = try update { (names) throws(EngineError) -> MemoryContent in
      if names.entry(path) == nil { try names.add(.file(MemoryContent(budget: budget)), at: path) }
      let content = try names.file(path)
      guard names.locked.insert(ObjectIdentifier(content)).inserted else {
        throw EngineError(.locked, "this process already holds the lock", file: path)
      }
      return content
    }
    return MemoryFileLock(fileSystem: self, content: content)
  }

  fileprivate func unlock(_ content: MemoryContent) {
    _ = names.withLock { $0.locked.remove(ObjectIdentifier(content)) }
  }

  /// Renames a file or directory. An existing file with the new name is replaced.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    try update { (names) throws(EngineError) in try names.rename(path, to: newPath) }
  }

  /// Adds a second name to a file. Throws `.alreadyExists`.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    try update { (names) throws(EngineError) in try names.add(.file(try names.file(path)), at: newPath) }
  }

  /// Removes a name. An open file stays readable and writable.
  public func remove(_ path: String) throws(EngineError) {
    try update { (names) throws(EngineError) in
      _ = try names.file(path)
      names.set(nil, at: path)
    }
  }

  /// Creates a directory. Throws `.alreadyExists`.
  public func createDirectory(_ path: String) throws(EngineError) {
    try update { (names) throws(EngineError) in
      try names.add(.directory, at: path)
      names.directories[MemoryPath(path).text] = [:]
    }
  }

  /// Removes an empty directory.
  public func removeDirectory(_ path: String) throws(EngineError) {
    try update { (names) throws(EngineError) in
      let entries = try names.entries(of: path)
      guard entries.isEmpty, !MemoryPath(path).isRoot else {
        throw EngineError(.inputOutput, "the directory is not empty", file: path)
      }
      names.directories[MemoryPath(path).text] = nil
      names.set(nil, at: path)
    }
  }

  /// Returns the names in a directory, sorted, so that runs are reproducible.
  public func list(_ directory: String) throws(EngineError) -> [String] {
    try update { (names) throws(EngineError) in try names.entries(of: directory).keys.sorted() }
  }

  /// Returns the attributes of the file or directory at a path, or nil if none exists.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    names.withLock { names in
      if MemoryPath(path).isRoot { return FileAttributes(isDirectory: true, size: 0) }
      switch names.entry(path) {
      case nil: return nil
      case .directory: return FileAttributes(isDirectory: true, size: 0)
      case .file(let content): return FileAttributes(isDirectory: false, size: UInt64(content.size))
      }
    }
  }

  /// Checks that the directory exists. A file system in memory needs no sync.
  public func syncDirectory(_ path: String) throws(EngineError) {
    try update { (names) throws(EngineError) in _ = try names.entries(of: path) }
  }

  /// Returns the number of bytes by which files may still grow.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 { budget.free }

  /// Returns the capacity, or `nil` if files may grow without a limit.
  public func totalSpace(_ path: String) -> UInt64? {
    budget.capacity == UInt64(Int64.max) ? nil : budget.capacity
  }

  /// Returns true, because the files are in memory.
  public func supportsMapping(_ path: String) -> Bool { true }

  private func update<R>(_ body: (inout Names) throws(EngineError) -> R) throws(EngineError) -> R {
    let result = names.withLock { names -> Result<R, EngineError> in
      do throws(EngineError) { return .success(try body(&names)) } catch { return .failure(error) }
    }
    return try result.get()
  }
}

/// A held lock of a file in memory.
private final class MemoryFileLock: FileLock {
  private let held: Mutex<(fileSystem: MemoryFileSystem, content: MemoryContent)?>

  init(fileSystem: MemoryFileSystem, content: MemoryContent) { held = Mutex((fileSystem, content)) }

  deinit { release() }

  func release() {
    let old = held.withLock { held in
      defer { held = nil }
      return held
    }
    if let old { old.fileSystem.unlock(old.content) }
  }
}

/// A path in its normal form: components joined by slashes, without empty ones and ".".
struct MemoryPath {
  let parent: String
  let name: String

  init(_ path: String) {
    let components = path.split(separator: "/").filter { $0 != "." }
    parent = components.dropLast().joined(separator: "/")
    name = components.last.map(String.init) ?? ""
  }

  var isRoot: Bool { name.isEmpty }
  var text: String { parent.isEmpty ? name : parent + "/" + name }
}

extension MemoryFileSystem.Names {
  func entry(_ path: String) -> MemoryFileSystem.Entry? {
    let location = MemoryPath(path)
    return directories[location.parent]?[location.name]
  }

  func file(_ path: String) throws(EngineError) -> MemoryContent {
    switch entry(path) {
    case .file(let content): return content
    case .directory: throw EngineError(.inputOutput, "the path is a directory", file: path)
    case nil: throw EngineError(.notFound, "no file or directory exists at this path", file: path)
    }
  }

  func entries(of path: String) throws(EngineError) -> [String: MemoryFileSystem.Entry] {
    if let entries = directories[MemoryPath(path).text] { return entries }
    guard entry(path) == nil else { throw EngineError(.inputOutput, "the path is not a directory", file: path) }
    throw EngineError(.notFound, "no directory exists at this path", file: path)
  }

  mutating func set(_ entry: MemoryFileSystem.Entry?, at path: String) {
    let location = MemoryPath(path)
    directories[location.parent]?[location.name] = entry
  }

  mutating func add(_ entry: MemoryFileSystem.Entry, at path: String) throws(EngineError) {
    let location = MemoryPath(path)
    guard directories[location.parent] != nil else {
      throw EngineError(.notFound, "the parent directory does not exist", file: path)
    }
    guard !location.isRoot, self.entry(path) == nil else {
      throw EngineError(.alreadyExists, "a file or directory exists at this path", file: path)
    }
    set(entry, at: path)
  }

  mutating func rename(_ path: String, to newPath: String) throws(EngineError) {
    guard let moved = entry(path) else {
      throw EngineError(.notFound, "no file or directory exists at this path", file: path)
    }
    let source = MemoryPath(path).text
    let target = MemoryPath(newPath)
    guard directories[target.parent] != nil, !target.isRoot else {
      throw EngineError(.notFound, "the parent directory does not exist", file: newPath)
    }
    guard source != target.text else { return }
    switch (moved, entry(newPath)) {
    case (.file, nil), (.file, .file): break
    case (.directory, nil): try moveDirectory(source, to: target.text, path)
    default: throw EngineError(.alreadyExists, "a directory exists at the new path", file: newPath)
    }
    set(nil, at: path)
    set(moved, at: newPath)
  }

  private mutating func moveDirectory(_ source: String, to target: String, _ path: String) throws(EngineError) {
    let below = source + "/"
    guard !target.hasPrefix(below) else {
      throw EngineError(.inputOutput, "a directory cannot be moved into itself", file: path)
    }
    for key in directories.keys where key == source || key.hasPrefix(below) {
      directories[target + key.dropFirst(source.count)] = directories.removeValue(forKey: key)
    }
  }
}
