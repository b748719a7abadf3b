internal import Foundation
public import Varve

/// An edge from a row to another row, or to a file.
///
/// ```swift
/// try RelationshipEdge("avatar", to: Avatar.self, avatarID, [.deleteDestinationIfSourceDeleted])
/// ```
///
/// Edges with the same name between the same two ends are one edge: if it is declared or added several times, the last
/// one takes precedence. If it is both declared and added, these are two edges, because each is removed separately.
///
/// An edge is a value: safe from any thread.
public struct RelationshipEdge: Hashable, Sendable {
  /// The name, which describes the meaning of the edge.
  public let name: EdgeName
  /// The source row, or nil for the row that declares the edge.
  public internal(set) var source: RowKey?
  /// The destination of the edge.
  public let destination: EdgeEnd
  /// The rules that are applied when one of its ends is removed.
  public let rules: DeleteRules
  /// The treatment of the edge while its destination does not exist.
  public let dangling: Dangling
  /// The domain to which the edge belongs, or nil for that of `Relationships` without a domain.
  public private(set) var domain: String?
  /// The position among the edges with the same name and source, smallest first; equal positions are ordered by
  /// destination. Default: 0.
  public private(set) var order: Int64 = 0
  /// Whether the edge was added by hand. Otherwise a row declares it.
  public internal(set) var isManual = false
  /// The attribute of the edge as JSON, or empty if there is none.
  var attributeBytes: [UInt8] = []

  /// Creates an edge to the row of a type's collection with a key. Throws as the other form, and `.invalidKey`.
  public init<Destination: Persistable>(
    _ name: EdgeName, to type: Destination.Type, _ key: Destination.ID, _ rules: DeleteRules = [],
    dangling: Dangling = .weak
  ) throws {
    try self.init(name, to: .row(Destination.rowKey(key)), rules, dangling: dangling)
  }

  /// Creates an edge to an instance. Throws as the other forms.
  public init<Destination: Persistable>(
    _ name: EdgeName, to destination: Destination, _ rules: DeleteRules = [], dangling: Dangling = .weak
  ) throws {
    try self.init(name, to: .row(Destination.rowKey(destination.id)), rules, dangling: dangling)
  }

  /// Creates an edge to a row or a file. Throws `.invalidArgument` for a name, a path or rules that are not allowed;
  /// the message names the contradiction.
  public init(
    _ name: EdgeName, to destination: EdgeEnd, _ rules: DeleteRules = [], dangling: Dangling = .weak
  ) throws {
    self.name = name
    self.destination = destination
    self.rules = rules
    self.dangling = dangling
    try check()
  }

  /// Creates an edge that was read, and so was checked when it was written.
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

  // MARK: - Further properties

  /// Returns the edge in a domain: see ``Relationships``.
  public func inDomain(_ domain: String) -> RelationshipEdge {
    var copy = self
    copy.domain = ComposedText.of(domain)
    return copy
  }

  /// Returns the edge with a position among the edges with the same name and source.
  public func ordered(_ order: Int64) -> RelationshipEdge {
    var copy = self
    copy.order = order
    return copy
  }

  /// Returns the edge with an attribute, of up to 64 KiB as JSON. Throws `.encodingFailed`, `.valueTooLong`.
  public func with(_ attribute: some Encodable & Sendable) throws -> RelationshipEdge {
    var copy = self
    let encoder = JSONEncoder()
    // Keys are sorted so that equal values have the same encoding, and an edge that is declared again is recognized.
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

  /// Returns the attribute of the edge, or nil if it has none. Throws `.decodingFailed`.
  public func attribute<Attribute: Decodable & Sendable>(_ type: Attribute.Type = Attribute.self) throws -> Attribute? {
    if attributeBytes.isEmpty { return nil }
    do { return try JSONDecoder().decode(type, from: Data(attributeBytes)) } catch {
      throw DatabaseError(
        .decodingFailed, "what edge \"\(name)\" to \(destination) carries can't be decoded as \(type)", cause: error)
    }
  }
}
