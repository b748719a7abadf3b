public import VarveEngine

/// A file system that forwards to another one and whose syncs pass a gate: while it is shut, a thread that syncs
/// waits.
///
/// Safe from any thread.
public final class GatedFileSystem: ForwardingFileSystem {
  /// The wrapped file system.
  public let base: any FileSystem
  /// The gate that syncs of files pass.
  public let syncs = Gate()

  /// Wraps `base`. The gate is open.
  public init(_ base: any FileSystem) { self.base = base }

  private func wrap(_ file: any File) -> any File { GatedFile(file, syncs) }

  /// Calls the wrapped file system.
  public func createFile(_ path: String) throws(EngineError) -> any File { wrap(try base.createFile(path)) }
  /// Calls the wrapped file system.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    wrap(try base.openFile(path, writable: writable))
  }
}

/// An open file whose syncs pass the gate.
private final class GatedFile: ForwardingFile {
  let base: any File
  private let gate: Gate

  init(_ base: any File, _ gate: Gate) {
    self.base = base
    self.gate = gate
  }

  func sync() throws(EngineError) {
    gate.pass()
    try base.sync()
  }
  func sync(first size: Int) throws(EngineError) {
    gate.pass()
    try base.sync(first: size)
  }
}
