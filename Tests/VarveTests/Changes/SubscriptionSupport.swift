import EngineTestSupport
import Foundation
import Synchronization
import VarveEngine
import VarveTestSupport

@testable import Varve

/// An object that is reported with commits, to find out whether it is released.
final class Canary: Sendable {
  struct Newest { weak var canary: Canary? }
  static let newest = Mutex(Newest(canary: nil))
}

/// An extension that reports a canary with each commit.
struct CanaryExtension: DatabaseExtension {
  static let kind = "test.canaryExtension"
  typealias Changes = Canary
  final class Transaction: ExtensionTransaction {
    typealias Definition = CanaryExtension
    func takeChanges() -> Canary? {
      let canary = Canary()
      Canary.newest.withLock { $0.canary = canary }
      return canary
    }
    func didChange(_ change: borrowing RowChange) {}
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = .inserts
    configuration.build = .none
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) -> Transaction { Transaction() }
}

/// Encodes resume points as a program would store them.
enum Codec {
  static func json(_ version: CommitVersion) throws -> String {
    String(decoding: try JSONEncoder().encode(version), as: UTF8.self)
  }

  static func version(_ json: String) throws -> CommitVersion {
    try JSONDecoder().decode(CommitVersion.self, from: Data(json.utf8))
  }
}

/// A storage whose commits become durable when a gate lets them.
final class GatedBackend: ForwardingBackend, @unchecked Sendable {
  private let gate: Gate
  /// Whether commits that pass the gate can't be made durable.
  let fails = Atomic(false)

  init(_ base: EngineBackend, _ gate: Gate) {
    self.gate = gate
    super.init(base)
  }

  struct Ticket: StorageTicket {
    let ticket: any StorageTicket
    let gate: Gate?
    let backend: GatedBackend
    var version: CommitVersion { ticket.version }
    var isDurable: Bool { gate == nil && ticket.isDurable }
    func wait() throws {
      gate?.pass()
      try check()
      try ticket.wait()
    }
    func waitSuspended() async throws {
      await gate?.passSuspended()
      try check()
      try await ticket.waitSuspended()
    }
    private func check() throws {
      if gate != nil, backend.fails.load(ordering: .acquiring) { throw DatabaseError(.outcomeUnknown, "a failed sync") }
    }
  }

  override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    let ticket = try super.commit(batch, check: check, durability: durability)
    return Ticket(ticket: ticket, gate: durability == .power ? gate : nil, backend: self)
  }
}
