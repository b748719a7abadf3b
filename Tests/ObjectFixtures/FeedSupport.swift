import Foundation
import VarveEngine
import VarveTestSupport

@testable import Varve

/// Keys as programs have them mostly.
enum UUIDKey {
  static func random() -> UUID { UUID() }
}

/// A storage whose values are small.
final class SmallBackend: ForwardingBackend, @unchecked Sendable {
  override var limits: StorageLimits { StorageLimits(keySize: 1_000, valueSize: 4_000, batchSize: 1 << 20) }
}
