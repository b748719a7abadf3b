import Synchronization

@testable import ObjectFixtures
@testable import Varve

/// A type whose decoding closes the database.
struct Closing: Decodable, Sendable {
  static let database = Mutex<Database?>(nil)

  init(from decoder: any Decoder) throws { try Self.database.withLock { $0 }?.endNow() }
}
