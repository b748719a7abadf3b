import Foundation
import VarveEngine
import VarveTestSupport

@testable import Varve

/// A source of random keys of the type that programs use most.
enum UUIDKey {
  static func random() -> UUID { UUID() }
}

/// A storage that limits values to a small size.
final class SmallBackend: ForwardingBackend, @unchecked Sendable {
  override var limits: StorageLimits { StorageLimits(keySize: 1_000, valueSize: 4_000, batchSize: 1 << 20) }
}
