/// The coders of programs that a database knows: by number those of its catalog, by name those of the program.
package struct CoderTable: Sendable {
  /// The numbers of Varve's own coders are below.
  package static let firstNumber: UInt8 = 16
  /// How long a stored name may be, in bytes.
  static let nameSizeMaximum = 255

  private(set) var names: [UInt8: String] = [:]
  private var types: [String: any ObjectCoder.Type] = [:]
  /// At least this is the next number.
  private var next = Self.firstNumber

  // MARK: - Of the program

  /// Adds what a definition or the options name. Throws `.invalidDefinition` for a name that is not possible, or that
  /// another type has.
  mutating func add(_ kind: CoderKind) throws {
    guard case .own(let type) = kind, !kind.isUnnamed else { return }
    let name = try Self.checkedName(of: type)
    if let other = types[name], ObjectIdentifier(other) != ObjectIdentifier(type) {
      throw DatabaseError(.invalidDefinition, "the coders \(other) and \(type) have one stored name, \"\(name)\"")
    }
    types[name] = type
  }

  /// Throws `.invalidDefinition`.
  static func checkedName(of type: any ObjectCoder.Type) throws -> String {
    let name = Name.composed(type.storedName)
    func refused(_ what: String) -> DatabaseError {
      DatabaseError(.invalidDefinition, "the stored name of the coder \(type) \(what)")
    }
    if name.isEmpty { throw refused("is empty") }
    guard name.utf8.count <= nameSizeMaximum else {
      throw refused("has \(name.utf8.count) bytes; at most \(nameSizeMaximum) are possible")
    }
    if CoderKind.allCases.contains(where: { $0.description == name }) {
      throw refused("is \"\(name)\", which is Varve's")
    }
    return name
  }

  // MARK: - Of the catalog

  /// What the catalog has.
  mutating func load(_ names: [UInt8: String], next: UInt8) {
    self.names = names
    self.next = max(next, Self.firstNumber)
  }

  mutating func set(_ name: String, for number: UInt8) { names[number] = name }

  /// The number of a stored name; nil where it has none.
  func number(of name: String) -> UInt8? { names.first { $0.value == Name.composed(name) }?.key }

  /// The next that is free, if collections use these; nil where none is left.
  func nextNumber(beside used: some Sequence<UInt8>) -> UInt8? {
    let highest = (names.keys.max() ?? 0, used.max() ?? 0)
    let last = max(highest.0, highest.1)
    if last == .max { return nil }
    return max(last + 1, next)
  }

  // MARK: - Both

  /// The coder with a number: `.own(UnnamedCoder.self)` where the program has not named it. Nil for one of a newer Varve.
  func kind(_ number: UInt8) -> CoderKind? {
    if number < Self.firstNumber { return CoderKind(number: number) }
    return .own(names[number].flatMap { types[$0] } ?? UnnamedCoder.self)
  }

  /// What a coder is called.
  func name(_ number: UInt8) -> String {
    CoderKind(number: number)?.description ?? names[number] ?? "number \(number)"
  }

  /// Why rows of a coder can't be read or written.
  func unknown(_ number: UInt8) -> DatabaseError {
    let what = names[number].map { "\"\($0)\"" } ?? "with the number \(number), whose name the catalog does not have"
    return DatabaseError(
      .unknownCoder,
      "the coder \(what) is of a program's own, and this program has not named it: add its type to the definition, as "
        + "`coder` or among `formerCoders`")
  }
}
