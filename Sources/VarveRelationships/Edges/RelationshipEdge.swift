internal import Foundation
public import Varve

/// An edge from a row to another row, or to a file.
///
/// ```swift
/// try RelationshipEdge("avatar", to: Avatar.self, avatarID, [.deleteDestinationIfSourceDeleted])
/// ```
///
/// An edge of one name between the same two ends is one edge: declared twice it is the last, and so it is where it is added
/// twice. Declared and added it is two, because each goes by itself.
///
/// A value: safe from any thread.
public struct RelationshipEdge: Hashable, Sendable {
  /// What it means.
  public let name: EdgeName
  /// Where it begins; nil: at the row that declares it.
  public internal(set) var source: RowKey?
  /// Where it leads.
  public let destination: EdgeEnd
  /// What happens when one of its ends goes.
  public let rules: DeleteRules
  /// What it is while its destination is not there.
  public let dangling: Dangling
  /// The domain that it belongs to; nil: that of `Relationships` without one.
  public private(set) var domain: String?
  /// Its position among the edges of its name and source, smallest first; equal ones come by destination. Default 0.
  public private(set) var order: Int64 = 0
  /// Whether it was added by hand; false: a row declares it.
  public internal(set) var isManual = false
  /// What it carries, as JSON; empty: nothing.
  var attributeBytes: [UInt8] = []

  /// The key of the other end, as the type says its collection. Throws as the other form, and `.invalidKey`.
  public init<Destination: Persistable>(
    _ name: EdgeName, to type: Destination.Type, _ key: Destination.ID, _ rules: DeleteRules = [],
    dangling: Dangling = .weak
  ) throws {
    try self.init(name, to: .row(Destination.rowKey(key)), rules, dangling: dangling)
  }

  /// To a row or a file. Throws `.invalidArgument` for a name, a path or rules that no edge has, naming what contradicts
  /// what.
  public init(
    _ name: EdgeName, to destination: EdgeEnd, _ rules: DeleteRules = [], dangling: Dangling = .weak
  ) throws {
    self.name = name
    self.destination = destination
    self.rules = rules
    self.dangling = dangling
    try check()
  }

  /// One that was read: it was checked when it was made.
  init(
    _ name: EdgeName, from source: RowKey, to destination: EdgeEnd, _ rules: DeleteRules, _ dangling: Dangling,
    order: Int64, attributeBytes: [UInt8], isManual: Bool, domain: String?
  ) {
    self.name = name
    self.source = source
    self.destination = destination
    self.rules = rules
    self.dangling = dangling
    self.order = order
    self.attributeBytes = attributeBytes
    self.isManual = isManual
    self.domain = domain
  }

  private func check() throws {
    try name.check()
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidArgument, "edge \"\(name)\" to \(destination) \(what)")
    }
    var isFile = false
    if case .file(let root, let path) = destination {
      isFile = true
      if root.utf8.contains(0) { throw refused("names a root that has U+0000 in it") }
      if let reason = FilePath.refusal(path, anywhere: root == EdgeEnd.anywhere) { throw refused(reason) }
      if dangling != .weak { throw refused("says what it is while its file is missing; an edge may lead to no file") }
    }
    if let reason = rules.refusal(toFile: isFile) { throw refused(reason) }
  }

  // MARK: - What may be said besides

  /// The same in a domain: see ``Relationships``.
  public func inDomain(_ domain: String) -> RelationshipEdge {
    var copy = self
    copy.domain = ComposedText.of(domain)
    return copy
  }

  /// The same with a position among the edges of its name and source.
  public func ordered(_ order: Int64) -> RelationshipEdge {
    var copy = self
    copy.order = order
    return copy
  }

  /// The same with something that it carries, up to 64 KiB as JSON. Throws `.encodingFailed`, `.valueTooLong`.
  public func with(_ attribute: some Encodable & Sendable) throws -> RelationshipEdge {
    var copy = self
    let encoder = JSONEncoder()
    // One value has one encoding, so that an edge which is declared again is found to be the same.
    encoder.outputFormatting = .sortedKeys
    do {
      copy.attributeBytes = [UInt8](try encoder.encode(attribute))
    } catch {
      throw DatabaseError(.encodingFailed, "what edge \"\(name)\" carries can't be encoded as JSON", cause: error)
    }
    guard copy.attributeBytes.count <= Self.attributeSizeMaximum else {
      throw DatabaseError(
        .valueTooLong,
        "what edge \"\(name)\" carries has \(copy.attributeBytes.count) bytes as JSON; "
          + "at most \(Self.attributeSizeMaximum) are possible")
    }
    return copy
  }

  static let attributeSizeMaximum = 64 << 10

  /// What it carries; nil: nothing. Throws `.decodingFailed`.
  public func attribute<Attribute: Decodable & Sendable>(_ type: Attribute.Type = Attribute.self) throws -> Attribute? {
    if attributeBytes.isEmpty { return nil }
    do { return try JSONDecoder().decode(type, from: Data(attributeBytes)) } catch {
      throw DatabaseError(
        .decodingFailed, "what edge \"\(name)\" to \(destination) carries can't be decoded as \(type)", cause: error)
    }
  }
}
