public import Varve

/// Functions that are shared by the suites of the storage contract.
public enum Contract {
  /// Returns the UTF-8 bytes of a text.
  public static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  /// Opens a new storage of a kind, with one family that is named "f".
  public static func open(_ kind: StorageKind) throws -> (StorageSite, any StorageBackend, StorageFamily) {
    let site = try StorageSite(kind)
    let backend = try site.open()
    return (site, backend, try backend.createFamily("f", options: StorageFamilyOptions()))
  }

  /// Commits the batch that `body` fills, and waits for its ticket.
  @discardableResult
  public static func commit(
    _ backend: any StorageBackend, check: StorageCheck? = nil, durability: StorageDurability = .process,
    _ body: (inout StorageBatch) -> Void
  ) throws -> any StorageTicket {
    var batch = StorageBatch()
    body(&batch)
    let ticket = try backend.commit(batch, check: check, durability: durability)
    try ticket.wait()
    return ticket
  }

  /// Returns the rows of a range, read page by page. Throws if a page violates the storage contract.
  public static func rows(
    _ snapshot: any StorageSnapshot, _ family: StorageFamily, _ range: StorageRange = StorageRange(),
    isReverse: Bool = false, keysOnly: Bool = false, byteLimit: Int = 1 << 20, rowLimit: Int = 1 << 20
  ) throws -> [Pair] {
    var rest = range
    var rows: [Pair] = []
    while true {
      let page = try snapshot.page(
        rest, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
      let found = (0..<page.count).map { Pair(page.key($0), page.value($0)) }
      if !isReverse, !keysOnly {
        var first: Pair?
        try snapshot.visitFirst(of: rest, in: family) { first = Pair($0.bytes, $1.bytes) }
        guard first == found.first else {
          throw ContractBroken("\(rest) begins with \(first as Any), and its page with \(found.first as Any)")
        }
        var last: Pair?
        let before = try snapshot.visitRow(at: max(0, found.count - 1), of: rest, in: family) {
          last = Pair($0.bytes, $1.bytes)
        }
        guard last == found.last, before == max(0, found.count - 1) else {
          throw ContractBroken("\(rest) has \(last as Any) at \(before), and its page ends with \(found.last as Any)")
        }
      }
      rows += found
      let bytes = found.map { $0.key.count + $0.value.count }
      guard page.count <= rowLimit, bytes.dropLast().reduce(0, +) < byteLimit, page.byteCount == bytes.reduce(0, +)
      else { throw ContractBroken("a page of \(page.count) rows and \(page.byteCount) bytes is too large") }
      if page.isLast { return rows }
      guard let last = found.last else { throw ContractBroken("a page that is not the last is empty") }
      guard page.count == rowLimit || page.byteCount >= byteLimit else {
        throw ContractBroken("a page that is not the last has room for another row")
      }
      if isReverse { rest.upper = last.key } else { rest.lower = last.key + [0] }
    }
  }

  /// Returns all rows of the present state.
  public static func content(_ backend: any StorageBackend, _ family: StorageFamily) throws -> [Pair] {
    try rows(try backend.snapshot(), family)
  }

  /// Returns the code of the error that `body` throws, or `nil` if it throws none.
  public static func code(_ body: () throws -> Void) -> DatabaseError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? DatabaseError)?.code
    }
  }
}

/// A key and its value.
public struct Pair: Hashable, CustomStringConvertible {
  /// The key.
  public let key: [UInt8]
  /// The value.
  public let value: [UInt8]

  /// Creates a pair of bytes.
  public init(_ key: [UInt8], _ value: [UInt8]) {
    self.key = key
    self.value = value
  }

  /// Creates a pair from the UTF-8 bytes of two texts.
  public init(_ key: String, _ value: String) { self.init(Contract.bytes(key), Contract.bytes(value)) }

  /// A text for messages.
  public var description: String { "\(key): \(value.count > 40 ? "\(value.count) bytes" : "\(value)")" }
}

/// An error that describes how a storage violated its contract.
public struct ContractBroken: Error, CustomStringConvertible {
  /// The violation.
  public let description: String
  /// Creates an error from a description of the violation.
  public init(_ description: String) { self.description = description }
}
