public import VarveEngine

/// What a database should hold, kept in a way that can't be wrong: a sorted array for each family.
///
/// A snapshot is a copy of the state. A batch is applied change by change to the one state, so it is
/// there whole or not at all. The suites run the same operations on this and on an engine and compare
/// every answer.
///
///     var model = ModelDatabase()
///     model.write([.put("default", key, value), .delete("default", other)])
///     let then = model.state
///     #expect(engineRows == model.state.scan("default", .prefix(key)))
public struct ModelDatabase: Sendable {
  /// One key and its value.
  public struct Row: Hashable, Sendable, CustomStringConvertible {
    /// The user key.
    public let key: [UInt8]
    /// The value.
    public let value: [UInt8]

    /// Makes a row.
    public init(_ key: [UInt8], _ value: [UInt8]) {
      self.key = key
      self.value = value
    }

    /// Key and value as text where they are text.
    public var description: String {
      "\(String(decoding: key, as: UTF8.self))=\(String(decoding: value, as: UTF8.self))"
    }
  }

  /// One change of a batch. The first part names the family.
  public enum Change: Hashable, Sendable {
    /// The key gets the value.
    case put(String, [UInt8], [UInt8])
    /// The key goes, if it is there.
    case delete(String, [UInt8])
    /// As `delete`; the caller keeps the contract of single deletes.
    case singleDelete(String, [UInt8])
    /// The keys from the first (included) to the second (excluded) go.
    case deleteRange(String, [UInt8], [UInt8])
    /// The key's value becomes what the rule makes of it and the operand.
    case merge(String, [UInt8], [UInt8], MergeRule)

    /// The family that the change is in.
    public var family: String {
      switch self {
      case .put(let family, _, _), .delete(let family, _), .singleDelete(let family, _),
        .deleteRange(let family, _, _), .merge(let family, _, _, _):
        family
      }
    }
  }

  /// The content of all families at one point in time.
  public struct State: Hashable, Sendable {
    /// The rows of each family, in key order.
    public private(set) var families: [String: [Row]] = ["default": []]

    /// The value of a key, or nil.
    public func get(_ family: String, _ key: [UInt8]) -> [UInt8]? {
      let rows = rows(family)
      let index = Self.index(of: key, in: rows)
      return index < rows.count && rows[index].key == key ? rows[index].value : nil
    }

    /// The rows within bounds, in key order, without a copy.
    public func slice(_ family: String, _ bounds: CursorBounds = .all) -> ArraySlice<Row> {
      let rows = rows(family)
      let lower = bounds.lower.map { Self.index(of: $0, in: rows) } ?? 0
      let upper = bounds.upper.map { Self.index(of: $0, in: rows) } ?? rows.count
      return rows[lower..<max(lower, upper)]
    }

    /// The rows within bounds, in key order.
    public func scan(_ family: String, _ bounds: CursorBounds = .all) -> [Row] { Array(slice(family, bounds)) }

    /// The rows within bounds, the last one first.
    public func scanBackward(_ family: String, _ bounds: CursorBounds = .all) -> [Row] {
      scan(family, bounds).reversed()
    }

    /// The first row at or after a key: where a cursor's `seek` stands.
    public func seek(_ family: String, _ key: [UInt8], _ bounds: CursorBounds = .all) -> Row? {
      slice(family, bounds).first { !$0.key.lexicographicallyPrecedes(key) }
    }

    /// The last row at or before a key: where a cursor's `seekForPrevious` stands.
    public func seekForPrevious(_ family: String, _ key: [UInt8], _ bounds: CursorBounds = .all) -> Row? {
      slice(family, bounds).last { !key.lexicographicallyPrecedes($0.key) }
    }

    private func rows(_ family: String) -> [Row] {
      guard let rows = families[family] else { fatalError("the model has no family \(family): create it first") }
      return rows
    }

    /// The index of the first row whose key is not below `key`.
    private static func index(of key: [UInt8], in rows: [Row]) -> Int {
      rows[...].partitioningIndex { !$0.key.lexicographicallyPrecedes(key) }
    }

    fileprivate mutating func createFamily(_ name: String) { families[name] = [] }
    fileprivate mutating func dropFamily(_ name: String) { families[name] = nil }

    fileprivate mutating func apply(_ change: Change) {
      switch change {
      case .put(let family, let key, let value):
        let rows = rows(family)
        let index = Self.index(of: key, in: rows)
        replace(family, index..<(Self.holds(key, rows, index) ? index + 1 : index), with: [Row(key, value)])
      case .delete(let family, let key), .singleDelete(let family, let key):
        let rows = rows(family)
        let index = Self.index(of: key, in: rows)
        if Self.holds(key, rows, index) { replace(family, index..<(index + 1), with: []) }
      case .deleteRange(let family, let lower, let upper):
        replace(family, slice(family, CursorBounds(lower: lower, upper: upper)).indices, with: [])
      case .merge(let family, let key, let operand, let rule):
        let rows = rows(family)
        let index = Self.index(of: key, in: rows)
        let isThere = Self.holds(key, rows, index)
        let value = rule.apply(isThere ? rows[index].value : nil, operand)
        replace(family, index..<(isThere ? index + 1 : index), with: [Row(key, value)])
      }
    }

    private static func holds(_ key: [UInt8], _ rows: [Row], _ index: Int) -> Bool {
      index < rows.count && rows[index].key == key
    }

    private mutating func replace(_ family: String, _ range: Range<Int>, with rows: [Row]) {
      families[family]?.replaceSubrange(range, with: rows)
    }
  }

  /// The newest state.
  public private(set) var state = State()
  /// The state after each commit, the empty one first; only if the model was made to keep it.
  public private(set) var history: [State] = []
  private let keepsHistory: Bool

  /// A database with the family `default` and nothing in it. With `keepsHistory` the state after each
  /// commit stays, for tests of crashes: what is found must be one of them.
  public init(keepsHistory: Bool = false) {
    self.keepsHistory = keepsHistory
    if keepsHistory { history = [state] }
  }

  /// Applies a batch as one commit.
  public mutating func write(_ batch: [Change]) { commit { state in batch.forEach { state.apply($0) } } }

  /// Adds a family without rows.
  public mutating func createFamily(_ name: String) { commit { $0.createFamily(name) } }

  /// Takes a family away with its rows.
  public mutating func dropFamily(_ name: String) { commit { $0.dropFamily(name) } }

  private mutating func commit(_ body: (inout State) -> Void) {
    body(&state)
    if keepsHistory { history.append(state) }
  }
}

extension ArraySlice {
  /// The first index whose element fulfils `belongsBehind`, by binary search: elements that do come after those
  /// that don't.
  public func partitioningIndex(where belongsBehind: (Element) -> Bool) -> Int {
    var low = startIndex
    var high = endIndex
    while low < high {
      let middle = low + (high - low) / 2
      if belongsBehind(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
