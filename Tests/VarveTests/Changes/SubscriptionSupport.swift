import EngineTestSupport
import Foundation
import Synchronization
import VarveEngine

@testable import Varve

/// What is told, to see whether it is let go of.
final class Canary: Sendable {
  struct Newest { weak var canary: Canary? }
  static let newest = Mutex(Newest(canary: nil))
}

/// Tells a canary of each commit.
struct CanaryExtension: DatabaseExtension {
  final class Transaction: ExtensionTransaction {
    typealias Definition = CanaryExtension
    func takeChanges() -> (any Sendable)? {
      let canary = Canary()
      Canary.newest.withLock { $0.canary = canary }
      return canary
    }
    func didInsert(_ row: Row) {}
  }

  let versionTag = "1"
  var isPopulated: Bool { false }
  func makeTransaction(_ context: ExtensionContext) -> Transaction { Transaction() }
}

/// Resume points as a program would store them.
enum Codec {
  static func json(_ version: CommitVersion) throws -> String {
    String(decoding: try JSONEncoder().encode(version), as: UTF8.self)
  }

  static func version(_ json: String) throws -> CommitVersion {
    try JSONDecoder().decode(CommitVersion.self, from: Data(json.utf8))
  }
}

/// A storage whose commits become durable when a gate lets them.
final class GatedBackend: StorageBackend {
  private let backend: EngineBackend
  private let gate: Gate

  init(_ backend: EngineBackend, _ gate: Gate) {
    self.backend = backend
    self.gate = gate
  }

  struct Ticket: StorageTicket {
    let ticket: any StorageTicket
    let gate: Gate?
    var version: CommitVersion { ticket.version }
    var isDurable: Bool { gate == nil && ticket.isDurable }
    func wait() throws {
      gate?.pass()
      try ticket.wait()
    }
    func waitSuspended() async throws { try wait() }
  }

  var limits: StorageLimits { backend.limits }
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
    let ticket = try backend.commit(batch, check: check, durability: durability)
    return Ticket(ticket: ticket, gate: durability == .power ? gate : nil)
  }
  func changes(since version: CommitVersion) async throws -> CommitVersion {
    try await backend.changes(since: version)
  }
  func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try backend.checkpoint(to: path, progress: progress)
  }
  func close() throws { try backend.close() }
}
