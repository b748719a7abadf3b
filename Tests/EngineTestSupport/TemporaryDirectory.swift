internal import Synchronization
public import VarveEngine

/// A temporary directory on the real disk, which is removed with its content when the instance is deallocated.
public final class TemporaryDirectory: Sendable {
  /// The path of the directory.
  public let path: String
  private let fileSystem = PosixFileSystem()
  private static let count = Atomic<UInt64>(0)

  /// Creates a directory below `parent`.
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
