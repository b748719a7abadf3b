import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// Files in memory, with a function that is called before each write.
///
/// Safe from any thread.
final class HookedFileSystem: ForwardingFileSystem {
  /// What a write does.
  indirect enum Effect: Sendable, CustomStringConvertible {
    /// It writes all of its bytes, or the first ones, without an error.
    case whole, part(Int)
    /// It has the effect, and then throws `.noSpace`.
    case failing(Effect)

    var description: String {
      switch self {
      case .whole: "all bytes"
      case .part(let count): "\(count) bytes"
      case .failing(let effect): "\(effect) and an error"
      }
    }
  }

  /// A function that gets the path and the number of bytes.
  typealias Hook = @Sendable (String, Int) -> Effect

  let base: any FileSystem = MemoryFileSystem()
  private let current = Mutex<Box?>(nil)

  private struct Box {
    let call: Hook
  }

  /// Sets the function, or removes it.
  func hook(_ hook: Hook?) { current.withLock { $0 = hook.map { Box(call: $0) } } }

  fileprivate func effect(_ path: String, _ count: Int) -> Effect {
    current.withLock { $0 }?.call(path, count) ?? .whole
  }

  func createFile(_ path: String) throws(EngineError) -> any File { HookedFile(try base.createFile(path), self) }
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    HookedFile(try base.openFile(path, writable: writable), self)
  }
  func supportsMapping(_ path: String) -> Bool { false }
}

private final class HookedFile: ForwardingFile {
  let base: any File
  private let owner: HookedFileSystem

  init(_ base: any File, _ owner: HookedFileSystem) {
    self.base = base
    self.owner = owner
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    try unsafe apply(owner.effect(base.path, bytes.count), bytes, at: offset)
  }

  private func apply(
    _ effect: HookedFileSystem.Effect, _ bytes: UnsafeRawBufferPointer, at offset: UInt64
  ) throws(EngineError) {
    switch effect {
    case .whole: try unsafe base.write(bytes, at: offset)
    case .part(let count):
      try unsafe base.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), at: offset)
    case .failing(let effect):
      try unsafe apply(effect, bytes, at: offset)
      throw EngineError(.noSpace, "the disk is full", file: path, offset: offset)
    }
  }
}
