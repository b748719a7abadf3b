@testable import Varve

extension Database {
  /// Registers an extension, and waits until it is built.
  @discardableResult
  func registerReady<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> ExtensionHandle<Definition> {
    let handle = try core.register(definition, name, progress)
    try waitReady(handle)
    return handle
  }

  /// Waits with the blocking form of `waitUntilReady`, where that name means the asynchronous form.
  func waitReady<Definition: DatabaseExtension>(_ handle: ExtensionHandle<Definition>) throws {
    try waitUntilReady(handle)
  }
}
