import Varve

@_spi(Extensions) @testable import VarveRelationships

/// A row that declares its edges as a list, and records the notifications of what it lost.
struct Thing: Codable, Hashable, Sendable, RelationshipNode {
  /// An edge as text: `name>b2=8+1!error@3`. Its destination is a row, whose collection is the first letter of the
  /// key, or a file as `root:path`.
  struct Link: Codable, Hashable, Sendable {
    var name: String
    var destination: String
    var rules: UInt8 = 0
    var dangling = Dangling.weak
    var order: Int64 = 0
  }

  var links: [Link] = []
  /// The notifications that the row received.
  var notes: [String] = []
  /// Whether the row keeps links to destinations that are gone.
  var isStubborn = false

  func relationshipEdges() throws -> [RelationshipEdge] { try links.map { try $0.edge } }

  func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Thing? {
    if isStubborn { return nil }
    var copy = self
    let other = reason == .asIfSourceDeleted ? edge.source.map(Thing.text) ?? "?" : Thing.text(edge.destination)
    copy.notes.append("\(edge.name) \(reason == .asIfSourceDeleted ? "from" : "to") \(other)")
    if reason == .asIfDestinationDeleted, !edge.isManual {
      copy.links.removeAll { $0.name == edge.name.text && $0.destination == Thing.text(edge.destination) }
    }
    return copy
  }

  /// Returns the row of a key: `b2` is the row "b2" of collection "b".
  static func row(_ key: String) throws -> RowKey { try RowKey(key, in: String(key.prefix(1))) }

  static func text(_ row: RowKey) -> String { (try? row.key(as: String.self)) ?? row.text }

  static func text(_ end: EdgeEnd) -> String {
    switch end {
    case .row(let row): text(row)
    case .file(let root, let path): "\(root):\(path)"
    }
  }
}

extension Thing.Link {
  var edge: RelationshipEdge {
    get throws {
      try RelationshipEdge(
        EdgeName(name), to: try end, DeleteRules(rawValue: rules), dangling: dangling
      ).ordered(order)
    }
  }

  var end: EdgeEnd {
    get throws {
      guard let colon = destination.firstIndex(of: ":") else { return .row(try Thing.row(destination)) }
      return .file(root: String(destination[..<colon]), path: String(destination[destination.index(after: colon)...]))
    }
  }

  /// Parses `name>b2`, with `=8+1` for rules, `!error` and `!source` for the handling of a dangling edge, and `@3`
  /// for its order.
  init(_ text: Substring) {
    var rest = text
    let (order, dangling) = (Self.cut(&rest, "@"), Self.cut(&rest, "!"))
    self.order = order.flatMap { Int64($0) } ?? 0
    self.dangling = dangling == "error" ? .error : dangling == "source" ? .deleteSource : .weak
    let colon = rest.lastIndex(of: "=")
    rules =
      colon.map { rest[rest.index(after: $0)...].split(separator: "+").compactMap { UInt8($0) }.reduce(0, |) } ?? 0
    if let colon { rest = rest[..<colon] }
    let parts = rest.split(separator: ">", maxSplits: 1)
    name = String(parts[0])
    destination = String(parts[1])
  }

  /// Cuts the text at the last `mark`, and returns the part after it.
  private static func cut(_ text: inout Substring, _ mark: Character) -> Substring? {
    guard let location = text.lastIndex(of: mark) else { return nil }
    let rest = text[text.index(after: location)...]
    text = text[..<location]
    return rest
  }

  var text: String {
    var text = "\(name)>\(destination)"
    if rules != 0 {
      text += "=" + [1, 2, 4, 8, 16, 32].filter { rules & $0 != 0 }.map { "\($0 as UInt8)" }.joined(separator: "+")
    }
    if dangling != .weak { text += dangling == .error ? "!error" : "!source" }
    return order == 0 ? text : text + "@\(order)"
  }
}
