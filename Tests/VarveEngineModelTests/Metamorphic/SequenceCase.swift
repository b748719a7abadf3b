import Foundation
import VarveEngine

@testable import EngineModel

/// A sequence and two settings under which it was run: it is printed if they disagree, and read to run it again.
///
/// # Format
/// Lines of JSON: the two settings, then one operation for each line. Lines that begin with `#` are comments.
struct SequenceCase: Equatable {
  var left: EngineSetting
  var right: EngineSetting
  var operations: [SequenceOperation]

  init(left: EngineSetting, right: EngineSetting, operations: [SequenceOperation]) {
    self.left = left
    self.right = right
    self.operations = operations
  }

  init(parsing text: String) throws {
    let lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") }
    let decoder = JSONDecoder()
    guard lines.count >= 2 else { throw ModelMismatch(description: "a case is two settings, and then operations") }
    left = try decoder.decode(EngineSetting.self, from: Data(lines[0].utf8))
    right = try decoder.decode(EngineSetting.self, from: Data(lines[1].utf8))
    operations = try lines.dropFirst(2).map { try decoder.decode(SequenceOperation.self, from: Data($0.utf8)) }
  }

  func text() throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var lines = try [left, right].map { String(decoding: try encoder.encode($0), as: UTF8.self) }
    lines += try operations.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
    return lines.joined(separator: "\n") + "\n"
  }

  /// Returns a description of the disagreement, or `nil` if both settings give the same history.
  func disagreement(lie: SequenceRun.Lie? = nil) -> String? {
    let first = SequenceRun.history(of: operations, left, isVerbose: true)
    let second = SequenceRun.history(of: operations, right, isVerbose: true, lie: lie)
    if let fault = first.fault { return "the first setting: \(fault)" }
    if let fault = second.fault { return "the second setting: \(fault)" }
    guard let index = first.firstDifference(from: second) else { return nil }
    let name = index < operations.count ? "operation \(index), \(operations[index].kind)" : "the end"
    return "\(name): the first setting answers\(first.texts[index]), the second\(second.texts[index])"
  }

  /// Returns a case with the same disagreement, in as few operations as can be found.
  func shrunk(lie: SequenceRun.Lie? = nil) -> SequenceCase {
    let (left, right) = (left, right)
    var shrinker = SequenceShrinker { operations in
      let first = SequenceRun.history(of: operations, left)
      let second = SequenceRun.history(of: operations, right, lie: lie)
      return first.fault != nil || second.fault != nil || first.firstDifference(from: second) != nil
    }
    return SequenceCase(left: left, right: right, operations: shrinker.shrink(operations))
  }
}
