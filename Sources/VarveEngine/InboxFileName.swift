/// The name of a file by which another process asks the engine that has the database open, or gets its answer.
///
/// | name | content |
/// |---|---|
/// | `0123456789abcdef.request` | a request that no engine has taken yet (`EngineRequest`) |
/// | `0123456789abcdef.taken` | the request that an engine is carrying out |
/// | `0123456789abcdef.answer` | how far it is, and at the end its result (`RequestAnswer`) |
/// | each of these with `.part` | a file that is being written, before its rename |
///
/// The digits are the id of the request, a random number.
struct InboxFileName: Hashable, Sendable {
  enum Kind: String, Sendable, CaseIterable {
    case request, taken, answer
  }

  let id: UInt64
  let kind: Kind
  /// Whether the file is not complete yet.
  var isPart = false

  init(_ id: UInt64, _ kind: Kind) {
    self.id = id
    self.kind = kind
  }

  var name: String {
    let digits = String(id, radix: 16)
    return String(repeating: "0", count: Self.digitCount - digits.utf8.count) + digits + "." + kind.rawValue
      + (isPart ? Self.partSuffix : "")
  }

  /// The name of the file while it is being written.
  var part: InboxFileName {
    var part = self
    part.isPart = true
    return part
  }

  private static let digitCount = 16
  private static let partSuffix = ".part"

  /// Parses a name. Returns `nil` for another spelling of the same name, and for any other name.
  init?(_ name: String) {
    isPart = name.hasSuffix(Self.partSuffix)
    let whole = isPart ? name.dropLast(Self.partSuffix.utf8.count) : name[...]
    guard let dot = whole.firstIndex(of: "."), let kind = Kind(rawValue: String(whole[whole.index(after: dot)...])),
      let id = UInt64(whole[..<dot], radix: 16)
    else { return nil }
    self.id = id
    self.kind = kind
    guard self.name == name else { return nil }
  }
}
