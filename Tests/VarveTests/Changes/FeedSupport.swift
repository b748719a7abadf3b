import Foundation
import VarveEngine

@testable import Varve

/// Keys as programs have them mostly.
enum UUIDKey {
  static func random() -> UUID { UUID() }
}

/// A storage whose values are small.
final class SmallBackend: StorageBackend {
  private let backend: EngineBackend

  init(_ backend: EngineBackend) { self.backend = backend }

  var limits: StorageLimits { StorageLimits(keySize: 1_000, valueSize: 4_000, batchSize: 1 << 20) }
  var isReadOnly: Bool { backend.isReadOnly }
  var isInMemory: Bool { true }
  func families() throws -> [StorageFamily] { try backend.families() }
  func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily {
    try backend.createFamily(name, options: options)
  }
  func dropFamily(_ family: StorageFamily) throws { try backend.dropFamily(family) }
  func snapshot() throws -> any StorageSnapshot { try backend.snapshot() }
  func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try backend.commit(batch, check: check, durability: durability)
  }
  func changes(since version: CommitVersion) async throws -> CommitVersion {
    try await backend.changes(since: version)
  }
  func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try backend.checkpoint(to: path, progress: progress)
  }
  func close() throws { try backend.close() }
}
