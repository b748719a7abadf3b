import Foundation
import Varve
import VarveTasks

/// The writer of a `Ledger`. It continues after the last transaction that it finds.
struct LedgerWriting {
  let database: Database

  init(path: String) throws { database = try Ledger.open(path) }

  /// Writes until the process is killed, and acknowledges each transaction.
  func run() throws {
    let pages = Store<Ledger.Pages>(in: database)
    let titles = Store<Ledger.Titles>(in: database)
    var number = try database.read { tx in try titles.query.fetch(in: tx).map(\.number).max() ?? 0 }
    while true {
      number += 1
      let id = Ledger.id(number)
      try database.write(label: "\(number)", durability: number % 64 == 0 ? .power : .process) { tx in
        try pages.persist(Ledger.Page(id: id, number: number, text: Self.text(number)), in: tx)
        try titles.persist(Ledger.Title(id: id, number: number), in: tx)
        if number % 10 == 0 { try tx.enqueue(Ledger.Printing(number: number), TaskOptions(queue: Ledger.queue)) }
      }
      TaskTarget.acknowledge(number)
    }
  }

  /// Up to 30 KB that can't be compressed, or few if the row is never written again.
  private static func text(_ number: Int) -> Data {
    number % 20 == 0 ? noise.prefix(100) : noise.suffix(noise.count - number % 5 * 4_000)
  }

  private static let noise: Data = {
    var random = SystemRandomNumberGenerator()
    return Data((0..<30_000).map { _ in UInt8.random(in: 0...255, using: &random) })
  }()
}
