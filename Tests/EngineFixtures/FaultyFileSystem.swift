import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// An in-memory file system that records its operations and makes one of those that change something fail, chosen by
/// its number, and optionally every one after it.
final class FaultyFileSystem: ForwardingFileSystem {
  struct Control: Sendable {
    var operationCount = 0
    var failsAt: Int?
    var failsForEver = false
    var trace: [String] = []
  }

  let base: any FileSystem = MemoryFileSystem()
  let control = Mutex(Control())

  func reset(failsAt: Int?, forEver: Bool = false) {
    control.withLock { $0 = Control(operationCount: 0, failsAt: failsAt, failsForEver: forEver) }
  }

  var trace: [String] { control.withLock { $0.trace } }

  fileprivate func step(_ name: String, _ path: String) throws(EngineError) {
    let fails = control.withLock { control in
      control.trace.append(name + " " + (path.split(separator: "/").last.map(String.init) ?? path))
      defer { control.operationCount += 1 }
      guard let failsAt = control.failsAt else { return false }
      return control.operationCount == failsAt || (control.failsForEver && control.operationCount > failsAt)
    }
    if fails { throw EngineError(.inputOutput, "injected failure of \(name)", file: path) }
  }

  func createFile(_ path: String) throws(EngineError) -> any File {
    try step("create", path)
    return FaultyFile(try base.createFile(path), self)
  }
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    FaultyFile(try base.openFile(path, writable: writable), self)
  }
  func rename(_ path: String, to newPath: String) throws(EngineError) {
    try step("rename", newPath)
    try base.rename(path, to: newPath)
  }
  func remove(_ path: String) throws(EngineError) {
    try step("remove", path)
    try base.remove(path)
  }
  func syncDirectory(_ path: String) throws(EngineError) { try step("syncDirectory", path) }
  func supportsMapping(_ path: String) -> Bool { false }
}

private final class FaultyFile: ForwardingFile {
  let base: any File
  private let owner: FaultyFileSystem

  init(_ base: any File, _ owner: FaultyFileSystem) {
    self.base = base
    self.owner = owner
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    do throws(EngineError) { try owner.step("write", path) } catch {
      // A real write that fails has often written a part of its bytes.
      let half = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count / 2)])
      try unsafe base.write(half, at: offset)
      throw error
    }
    try unsafe base.write(bytes, at: offset)
  }
  func sync() throws(EngineError) { try owner.step("sync", path) }
}
