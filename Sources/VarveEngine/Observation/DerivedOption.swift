/// A size or bound of an engine, and its origin; see `Engine.derivedOptions`.
public struct DerivedOption: Sendable, Hashable, CustomStringConvertible {
  /// A part of the engine.
  public enum Part: String, Sendable, Hashable, CaseIterable {
    /// The memory budget and its parts.
    case memory
    /// The log.
    case log
    /// Tables and how they are written.
    case tables
    /// Flushes and compactions.
    case background
    /// The bounds by which writers are slowed down.
    case writers
    /// Statistics, events and asynchronous calls.
    case observation
  }

  /// The part of the engine that the value belongs to.
  public let part: Part
  /// The name, as in the source.
  public let name: String
  /// The value as text: bytes, a count, a word.
  public let value: String
  /// The origin of the value, and its effect.
  public let reason: String

  init(_ part: Part, _ name: String, _ value: some CustomStringConvertible, _ reason: String) {
    self.part = part
    self.name = name
    self.value = value.description
    self.reason = reason
  }

  /// Returns the reason of a value that is an option if it is given, and is otherwise derived.
  static func reason(_ given: Any?, _ derived: String) -> String { given == nil ? derived : "as the options say" }

  /// The text `name = value: reason`.
  public var description: String { "\(name) = \(value): \(reason)" }
}
