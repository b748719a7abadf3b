public import VarveEngine

/// A model of a database's content, simple enough to be obviously correct: a sorted array for each family.
///
/// A snapshot is a copy of the state. A batch is applied change by change to the one state, so it is there completely
/// or not at all. The suites run the same operations on this model and on an engine, and compare every result.
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

    /// Creates a row.
    public init(_ key: [UInt8], _ value: [UInt8]) {
      self.key = key
      self.value = value
    }

    /// The key and the value as text, where they are valid UTF-8.
    public var description: String {
      "\(String(decoding: key, as: UTF8.self))=\(String(decoding: value, as: UTF8.self))"
    }
  }

  /// A change of a batch. The first associated value is the name of the family.
  public enum Change: Hashable, Sendable {
    /// Sets the value of the key.
    case put(String, [UInt8], [UInt8])
    /// Removes the key, if it exists.
    case delete(String, [UInt8])
    /// Removes the key like `delete`; the caller keeps the contract of single deletes.
    case singleDelete(String, [UInt8])
    /// Removes the keys from the first (included) to the second (excluded).
    case deleteRange(String, [UInt8], [UInt8])
    /// Sets the key's value to the result of the rule for its value and the operand.
    case merge(String, [UInt8], [UInt8], MergeRule)

    /// The family of the change.
    public var family: String {
      switch self {
      case .put(let family, _, _), .delete(let family, _), .singleDelete(let family, _),
        .deleteRange(let family, _, _), .merge(let family, _, _, _):
        family
      }
    }
  }

  /// The content of all families at one moment.
  public struct State: Hashable, Sendable {
    /// The rows of each family, in key order.
    public private(set) var families: [String: [Row]] = ["default": []]

    /// Returns the value of a key, or `nil` if there is none.
    public func get(_ family: String, _ key: [UInt8]) -> [UInt8]? {
      let rows = rows(family)
      let index = Self.index(of: key, in: rows)
      return index < rows.count && rows[index].key == key ? rows[index].value : nil
    }

    /// Returns the rows within the bounds in key order, without a copy.
    public func slice(_ family: String, _ bounds: CursorBounds = .all) -> ArraySlice<Row> {
      let rows = rows(family)
      let lower = bounds.lower.map { Self.index(of: $0, in: rows) } ?? 0
      let upper = bounds.upper.map { Self.index(of: $0, in: rows) } ?? rows.count
      return rows[lower..<max(lower, upper)]
    }

    /// Returns the rows within the bounds in key order.
    public func scan(_ family: String, _ bounds: CursorBounds = .all) -> [Row] { Array(slice(family, bounds)) }

    /// Returns the rows within the bounds in descending key order.
    public func scanBackward(_ family: String, _ bounds: CursorBounds = .all) -> [Row] {
      scan(family, bounds).reversed()
    }

    /// Returns the first row at or after a key, where a cursor is after `seek`.
    public func seek(_ family: String, _ key: [UInt8], _ bounds: CursorBounds = .all) -> Row? {
      slice(family, bounds).first { !$0.key.lexicographicallyPrecedes(key) }
    }

    /// Returns the last row at or before a key, where a cursor is after `seekForPrevious`.
    public func seekForPrevious(_ family: String, _ key: [UInt8], _ bounds: CursorBounds = .all) -> Row? {
      slice(family, bounds).last { !key.lexicographicallyPrecedes($0.key) }
    }

    private func rows(_ family: String) -> [Row] {
      guard let rows = families[family] else { fatalError("the model has no family \(family): create it first") }
      return rows
    }

    /// Returns the index of the first row whose key is not below `key`.
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
  /// The state after each commit, beginning with the empty one; empty unless the model was created with
  /// `keepsHistory`.
  public private(set) var history: [State] = []
  private let keepsHistory: Bool

  /// Creates a database with the empty family `default`.
  ///
  /// With `keepsHistory`, the state after each commit is kept for crash tests: the state that is found after a crash
  /// must be one of them.
  public init(keepsHistory: Bool = false) {
    self.keepsHistory = keepsHistory
    if keepsHistory { history = [state] }
  }

  /// Applies a batch as one commit.
  public mutating func write(_ batch: [Change]) { commit { state in batch.forEach { state.apply($0) } } }

  /// Adds an empty family.
  public mutating func createFamily(_ name: String) { commit { $0.createFamily(name) } }

  /// Removes a family and its rows.
  public mutating func dropFamily(_ name: String) { commit { $0.dropFamily(name) } }

  private mutating func commit(_ body: (inout State) -> Void) {
    body(&state)
    if keepsHistory { history.append(state) }
  }
}

extension ArraySlice {
  /// Returns the first index whose element satisfies the predicate, by binary search.
  ///
  /// All elements that satisfy it must come after those that do not.
  public func partitioningIndex(where belongsAfter: (Element) -> Bool) -> Int {
    var low = startIndex
    var high = endIndex
    while low < high {
      let middle = low + (high - low) / 2
      if belongsAfter(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
