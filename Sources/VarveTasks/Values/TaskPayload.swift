public import Foundation

/// What a task is given: a value of the program's, kept as JSON unless the type says otherwise.
///
/// ```swift
/// struct SendMessage: TaskPayload {
///   static let kind = "send-message"
///   let messageKey: String
/// }
/// ```
public protocol TaskPayload: Codable, Sendable {
  /// The name of the type on disk, the same for ever, whatever the type is called in the program. 1 to 255 bytes.
  static var kind: String { get }
  /// The version of what is encoded: another one lets `migrate` read what older programs have enqueued. Default 1.
  static var version: UInt16 { get }
  /// The options of a task that is enqueued without any. Default `TaskOptions()`.
  static var defaults: TaskOptions { get }

  /// The bytes of the value. Default JSON, its keys sorted.
  func encoded() throws -> Data
  /// The value of bytes that `encoded` has returned, in this version. Default JSON.
  init(encoded data: Data) throws
  /// The value of bytes of an earlier version. Default: throws `.unsupportedVersion`, and the task is parked.
  static func migrate(_ data: Data, from version: UInt16) throws -> Self
}

extension TaskPayload {
  /// 1.
  public static var version: UInt16 { 1 }
  /// `TaskOptions()`.
  public static var defaults: TaskOptions { TaskOptions() }

  /// JSON, its keys sorted.
  public func encoded() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return try encoder.encode(self)
  }

  /// From JSON.
  public init(encoded data: Data) throws { self = try JSONDecoder().decode(Self.self, from: data) }

  /// Throws `.unsupportedVersion`.
  public static func migrate(_ data: Data, from version: UInt16) throws -> Self {
    throw TaskError.unsupportedVersion(kind: kind, found: version, expected: Self.version)
  }
}
