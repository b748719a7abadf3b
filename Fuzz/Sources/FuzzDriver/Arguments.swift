import Foundation
import FuzzTargets

/// The arguments of the command line.
struct Arguments {
  struct Mistake: Error, CustomStringConvertible {
    let description: String
  }

  var targets: [FuzzTarget] = []
  var executions: UInt64 = 100_000
  var seed: UInt64 = UInt64(Date().timeIntervalSince1970)
  var replay: UInt64?
  /// The name under which the replayed input is kept.
  var keep: String?

  init(_ words: ArraySlice<String>) throws {
    var words = words
    while let word = words.popFirst() {
      switch word {
      case "--executions": executions = try Self.number(word, words.popFirst())
      case "--seed": seed = try Self.number(word, words.popFirst())
      case "--replay": replay = try Self.number(word, words.popFirst())
      case "--keep": keep = words.popFirst()
      default:
        guard let target = FuzzTarget(rawValue: word) else {
          let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: " ")
          throw Mistake(description: "there is no target \"\(word)\"; there are: \(names)")
        }
        targets.append(target)
      }
    }
    if targets.isEmpty { targets = FuzzTarget.allCases }
    if replay != nil, targets.count != 1 { throw Mistake(description: "--replay needs one target") }
    if keep != nil, replay == nil { throw Mistake(description: "--keep needs --replay") }
  }

  private static func number(_ word: String, _ value: String?) throws -> UInt64 {
    guard let value, let number = UInt64(value) else { throw Mistake(description: "\(word) needs a number") }
    return number
  }
}
