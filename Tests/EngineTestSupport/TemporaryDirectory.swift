internal import Synchronization
public import VarveEngine

/// A directory of a test's own on the real disk, removed with everything in it when the value goes.
public final class TemporaryDirectory: Sendable {
  /// Where it is.
  public let path: String
  private let fileSystem = PosixFileSystem()
  private static let count = Atomic<UInt64>(0)

  /// Makes a directory below `parent`.
  public init(below parent: String = "/tmp") throws(EngineError) {
    var random = SystemRandomNumberGenerator()
    let number = Self.count.add(1, ordering: .relaxed).newValue
    path = "\(parent)/varve-test-\(String(random.next(), radix: 36))-\(number)"
    try fileSystem.createDirectory(path)
  }

  deinit { try? removeTree(path) }

  private func removeTree(_ directory: String) throws(EngineError) {
    for name in try fileSystem.list(directory) {
      let child = "\(directory)/\(name)"
      if try fileSystem.attributes(child)?.isDirectory == true {
        try removeTree(child)
      } else {
        try fileSystem.remove(child)
      }
    }
    try fileSystem.removeDirectory(directory)
  }
}
