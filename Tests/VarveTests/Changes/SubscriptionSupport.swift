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
