public import Foundation

/// The input of a task: a value of the program, stored as JSON unless the type defines another encoding.
///
/// ```swift
/// struct SendMessage: TaskPayload {
///   static let kind = "send-message"
///   let messageKey: String
/// }
/// ```
public protocol TaskPayload: Codable, Sendable {
  /// The name of the type on disk, of 1 to 255 bytes. It must never change, whatever the type is called in the program.
  static var kind: String { get }
  /// The version of the encoding, by default 1. With another version, `migrate` reads payloads that older programs have
  /// enqueued.
  static var version: UInt16 { get }
  /// The options of a task that is enqueued without any, by default `TaskOptions()`. A closure at `enqueue` changes
  /// some of them for one task; options that are passed as a value replace all of them.
  static var defaults: TaskOptions { get }

  /// Returns the bytes of the value, by default JSON with sorted keys.
  func encoded() throws -> Data
  /// Creates the value from bytes that `encoded` has returned in this version, by default from JSON.
  init(encoded data: Data) throws
  /// Returns the value of bytes of an earlier version.
  ///
  /// The default implementation throws `.unsupportedVersion`, and the task is parked.
  static func migrate(_ data: Data, from version: UInt16) throws -> Self
}

extension TaskPayload {
  /// The default version, 1.
  public static var version: UInt16 { 1 }
  /// The default options, `TaskOptions()`.
  public static var defaults: TaskOptions { TaskOptions() }

  /// Returns JSON with sorted keys.
  public func encoded() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return try encoder.encode(self)
  }

  /// Creates the value from JSON.
  public init(encoded data: Data) throws { self = try JSONDecoder().decode(Self.self, from: data) }

  /// Returns the value of bytes that a task has, which are those of a version.
  static func stored(_ bytes: [UInt8], _ version: UInt16) throws -> Self {
    let data = Data(bytes)
    return try version == Self.version ? Self(encoded: data) : migrate(data, from: version)
  }

  /// Throws `.unsupportedVersion`.
  public static func migrate(_ data: Data, from version: UInt16) throws -> Self {
    throw TaskError.unsupportedVersion(kind: kind, found: version, expected: Self.version)
  }
}
